import torch
from torch import nn

actor = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
critic = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
actor_optim = torch.optim.Adam(actor.parameters())
critic_optim = torch.optim.Adam(critic.parameters())


def update(obs, target):
    action = actor(obs)
    q = critic(torch.cat([obs, action.detach()], 1))
    critic_loss = (q - target).pow(2).mean()
    critic_optim.zero_grad()
    critic_loss.backward()
    critic_optim.step()
    actor_loss = -critic(torch.cat([obs, action], 1)).mean()
    actor_optim.zero_grad()
    actor_loss.backward()
    actor_optim.step()


for _ in range(2):
    update(torch.randn(5, 3), torch.randn(5, 1))
