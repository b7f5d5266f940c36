import torch
from torch import nn

cell, read = nn.RNNCell(3, 4), nn.Linear(4, 1)
opt = torch.optim.SGD([*cell.parameters(), *read.parameters()], lr=0.1)
for sequence in torch.randn(3, 8, 2, 3):
    opt.zero_grad()
    h = torch.zeros(2, 4)
    for number, x in enumerate(sequence):
        h = cell(x, h)
        if number % 2 == 1:
            read(h).square().mean().backward(retain_graph=number < 7)
    opt.step()
