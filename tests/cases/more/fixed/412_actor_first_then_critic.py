import torch
from torch import nn


class Agent:
    def __init__(self):
        self.actor, self.critic = nn.Linear(4, 2), nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
        self.opts = {
            "actor": torch.optim.Adam(self.actor.parameters()),
            "critic": torch.optim.Adam(self.critic.parameters()),
        }

    def update(self, obs, act, ret):
        value = self.critic(obs).squeeze(1)
        advantage = ret - value
        logp = torch.log_softmax(self.actor(obs), 1).gather(1, act[:, None]).squeeze(1)
        actor_loss = -(logp * advantage.detach()).mean()
        critic_loss = advantage.pow(2).mean()
        self.opts["actor"].zero_grad()
        actor_loss.backward()
        self.opts["actor"].step()
        self.opts["critic"].zero_grad()
        critic_loss.backward()
        self.opts["critic"].step()


agent = Agent()
for _ in range(2):
    agent.update(torch.randn(6, 4), torch.randint(0, 2, (6,)), torch.randn(6))
