import torch
from torch import nn
net = nn.Linear(3, 1)
def smooth(t):
    return (t + t.flip(0)) / 2
pred = smooth(net(torch.randn(4, 3)))
loss = pred.pow(2).mean()
loss.backward()
