import copy, torch
from torch import nn
net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
ema = copy.deepcopy(net).requires_grad_(False)
opt = torch.optim.SGD(net.parameters(), lr=.1)
for step in range(5):
    x, y = torch.randn(5, 3), torch.randn(5, 1)
    (net(x) - y).square().mean().backward()
    with torch.no_grad():
        eps = [0.01 * p.grad / (p.grad.norm() + 1e-9) for p in net.parameters()]
        for p, e in zip(net.parameters(), eps):
            p.add_(e)
    net.zero_grad()
    (net(x) - y).square().mean().backward()
    with torch.no_grad():
        for p, e in zip(net.parameters(), eps):
            p.sub_(e)
    opt.step()
    opt.zero_grad()
    with torch.no_grad():
        for a, b in zip(ema.parameters(), net.parameters()):
            a.lerp_(b, 0.1)
