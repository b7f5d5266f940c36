import torch
from torch import nn


class Bank:
    def __init__(self):
        self.items = []

    def mean(self):
        return torch.stack(self.items).mean(0) if self.items else torch.zeros(5, 4)

    def add(self, z):
        self.items = [*self.items[-3:], z]


enc = nn.Sequential(nn.Linear(3, 4), nn.Tanh())
opt = torch.optim.SGD(enc.parameters(), lr=0.1)
bank = Bank()
for _ in range(4):
    bank.items[:] = [one.detach() for one in bank.items]
    z = enc(torch.randn(5, 3))
    loss = (z - bank.mean()).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    bank.add(z)
