import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

losses = []
for epoch in range(2):
    for batch in torch.randn(2, 5, 3):
        losses.append(net(batch).square().mean())
    optimizer.zero_grad()
    sum(losses).backward()
    optimizer.step()
