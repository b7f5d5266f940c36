import torch
from torch import nn
a = nn.Parameter(torch.randn(3))
b = nn.Parameter(torch.randn(3))
opt = torch.optim.SGD([a, b], lr=.1)
mixed = a + b
for i in range(4):
    loss = (torch.randn(3) - mixed).sum()
    opt.zero_grad()
    loss.backward()  # <-- wrong
    opt.step()
