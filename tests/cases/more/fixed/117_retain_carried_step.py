import torch
from torch import nn
cell = nn.RNNCell(3, 4)
opt = torch.optim.SGD(cell.parameters(), lr=.1)
h = torch.zeros(2, 4)
for x in torch.randn(4, 2, 3):
    h = cell(x, h.detach())
    loss = h.square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
