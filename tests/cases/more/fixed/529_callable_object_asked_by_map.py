"""A callable that keeps a state is the default of a lambda that map asks."""
import torch
from torch import nn

class Memory:
    def __init__(self):
        self.h = None
    def __call__(self, cell, x):
        old = torch.zeros(1, 4) if self.h is None else self.h
        new = cell(x, old)
        self.h = new.detach()
        return new

cell = nn.RNNCell(3, 4)
opt = torch.optim.SGD(cell.parameters(), lr=0.1)

def run(model, xs):
    for h in map(lambda x, m=Memory(): m(model, x), xs):
        opt.zero_grad()
        h.pow(2).mean().backward()
        opt.step()

run(cell, torch.ones(3, 1, 3))
