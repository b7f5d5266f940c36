import torch
from torch import nn
net = nn.Linear(3, 2)
opt = torch.optim.SGD(net.parameters(), lr=.01)
for i in range(3):
    loss = (net(torch.ones(2, 3)).exp() * torch.randn(2, 2)).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
