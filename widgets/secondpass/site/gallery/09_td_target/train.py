import torch
from torch import nn

torch.manual_seed(0)
critic = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)

states = torch.randn(4, 3)
target = 1.0 + 0.9 * critic(states[0])
for state in states[1:]:
    loss = (critic(state) - target).square().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
