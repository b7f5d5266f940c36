import torch
from torch import nn

cell, head = nn.GRUCell(3, 5), nn.Linear(5, 1)
opt = torch.optim.Adam([*cell.parameters(), *head.parameters()])


def hidden_states(batches):
    h = torch.zeros(4, 5)
    for x in batches:
        h = cell(x, h)  # <-- created
        yield h


for state in hidden_states(torch.randn(4, 4, 3)):
    loss = head(state).pow(2).mean()
    opt.zero_grad()
    loss.backward()  # <-- freed  # <-- fails
    opt.step()
