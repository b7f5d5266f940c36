import torch
from torch import nn

net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
error = net(torch.randn(5, 4)).square().mean()
error.backward(retain_graph=True)
print(net[0].weight.grad.norm())
opt.zero_grad()
error.backward()
opt.step()
