import torch
from torch import nn
a = nn.Parameter(torch.randn(3))
b = nn.Parameter(torch.randn(3))
opt = torch.optim.SGD([a, b], lr=.1)
for i in range(4):
    mixed = a + b
    loss = (torch.randn(3) - mixed).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
