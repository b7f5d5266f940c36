import torch
from torch import nn
net = nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 1))
def residual(t, x):
    u = net(torch.stack([t, x], 1)).sum()  # <-- created
    ut, = torch.autograd.grad(u, t)  # <-- freed
    ux, = torch.autograd.grad(u, x)  # <-- fails
    return ut + ux
t = torch.rand(4, requires_grad=True)
x = torch.rand(4, requires_grad=True)
residual(t, x).square().mean()
