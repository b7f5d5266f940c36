import torch
from torch import nn
net = nn.Linear(3, 2)
def init(m):
    m.weight.fill_(0.5)  # <-- fails
net.apply(init)
