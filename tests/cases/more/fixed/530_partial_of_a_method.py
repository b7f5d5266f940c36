"""A penalty is bound once to a method."""
import functools, torch
from torch import nn
net = nn.Linear(3, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
class Trainer:
    def step(self, reg, x):
        opt.zero_grad()
        (net(x).pow(2).mean() + reg).backward()
        opt.step()
for x in torch.ones(3, 4, 3):
    go = functools.partial(Trainer().step, net.weight.exp().sum())
    go(x)
