import torch
from torch import nn


class Whiten:
    def __init__(self, data):
        self.enc = nn.Linear(3, 3)
        self.scale, self.shift = self.measure(data)
        self.scale = self.scale.detach()
        self.shift = self.shift.detach()

    def measure(self, data):
        z = self.enc(data)
        return z.std(0), z.mean(0)

    def __call__(self, z):
        return (z - self.shift) / self.scale


white = Whiten(torch.randn(20, 3))
net = nn.Linear(3, 3)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    loss = white(net(torch.randn(5, 3))).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
