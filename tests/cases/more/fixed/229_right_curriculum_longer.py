import torch
from torch import nn
cell, head = nn.LSTM(2, 4), nn.Linear(4, 1)
opt = torch.optim.Adam([*cell.parameters(), *head.parameters()])
state = None
losses = []
for n in range(2, 9):
    out, state = cell(torch.randn(n, 1, 2), state)
    loss = head(out).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    state = tuple(s.detach() for s in state)
    losses.append(loss.item())
w = torch.randn(3, requires_grad=True)
h = torch.ones(3)
for t in range(6):
    h = h + w * t
total = (h ** 2).sum()
total.backward()
