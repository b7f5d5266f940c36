import torch
from torch import nn


class TemporalGraph(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.out = nn.GRUCell(2, 4), nn.Linear(4, 1)
        self.memory = {}

    def forward(self, node, x):
        h = self.memory.get(node)
        if h is None:
            h = torch.zeros(1, 4)
        h = self.cell(x, h)  # <-- created
        self.memory[node] = h
        return self.out(h)


model = TemporalGraph()
opt = torch.optim.Adam(model.parameters())
for node in ("a", "b", "a", "b"):
    y = model(node, torch.randn(1, 2))
    opt.zero_grad()
    y.pow(2).sum().backward()  # <-- freed  # <-- fails
    opt.step()
