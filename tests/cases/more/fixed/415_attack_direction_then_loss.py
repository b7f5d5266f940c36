import torch
from torch import nn

net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    x = torch.randn(6, 4, requires_grad=True)
    y = torch.randint(0, 2, (6,))
    clean = net(x)
    direction, = torch.autograd.grad(nn.functional.cross_entropy(clean, y), x, retain_graph=True)
    moved = (x + 0.1 * direction.sign()).detach()
    loss = nn.functional.cross_entropy(clean, y) + nn.functional.cross_entropy(net(moved), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
