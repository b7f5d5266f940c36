import torch
from torch import nn

cell, head = nn.LSTMCell(3, 5), nn.Linear(5, 1)
opt = torch.optim.Adam([*cell.parameters(), *head.parameters()])
h = torch.zeros(2, 5)
c = torch.zeros(2, 5)
for _ in range(3):
    h, c = cell(torch.randn(2, 3), (h, c))  # <-- created
    loss = head(h).pow(2).mean()
    opt.zero_grad()
    loss.backward()  # <-- freed  # <-- fails
    opt.step()
