import torch
from torch import nn

net = nn.Linear(3, 2)
x = torch.randn(4, 3)


def penalise(grad):
    side = net(x).pow(2).mean()
    side.backward()  # <-- fails
    return grad


out = net(x)
out.register_hook(penalise)
out.sum().backward()
