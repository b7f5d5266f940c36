import torch
from torch import nn
actor, critic = nn.Linear(4, 2), nn.Linear(4, 1)
opt_a = torch.optim.Adam(actor.parameters())
opt_c = torch.optim.Adam(critic.parameters())
def update(obs, act, ret):
    value = critic(obs).squeeze(1).tanh()
    adv = ret - value
    critic_loss = adv.pow(2).mean()
    logp = torch.log_softmax(actor(obs), 1).gather(1, act[:, None]).squeeze(1)
    actor_loss = -(logp * adv.detach()).mean()
    opt_c.zero_grad()
    critic_loss.backward()
    opt_c.step()
    opt_a.zero_grad()
    actor_loss.backward()
    opt_a.step()
for _ in range(4):
    update(torch.randn(6, 4), torch.randint(0, 2, (6,)), torch.randn(6))
