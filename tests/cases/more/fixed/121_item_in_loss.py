import torch
from torch import nn
net = nn.Linear(3, 1)
def total(xs):
    out = 0.0
    for x in xs:
        out = out + net(x).square().mean()
    return out
loss = total(torch.randn(2, 4, 3))
loss.backward()
