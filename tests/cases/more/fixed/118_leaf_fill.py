import torch
from torch import nn
net = nn.Linear(3, 2)
def init(m):
    nn.init.constant_(m.weight, 0.5)
net.apply(init)
net(torch.ones(1, 3)).sum().backward()
