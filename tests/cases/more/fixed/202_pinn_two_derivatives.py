import torch
from torch import nn
net = nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 1))
opt = torch.optim.Adam(net.parameters())
def residual(t, x):
    u = net(torch.stack([t, x], 1)).sum()
    ut, = torch.autograd.grad(u, t, create_graph=True)
    uxx, = torch.autograd.grad(ut.sum(), x, create_graph=True)
    return ut + uxx
for _ in range(4):
    t = torch.rand(4, requires_grad=True)
    x = torch.rand(4, requires_grad=True)
    loss = residual(t, x).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
