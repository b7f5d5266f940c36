"""Weight decay by hand with a foreach function, between forward and backward."""
import torch
from torch import nn

net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.1)


@torch.no_grad()
def decay(params, rate):
    torch._foreach_mul_([p for p in params if p.ndim > 1], 1 - rate)


for x in torch.randn(2, 5, 3):
    loss = net(x).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    decay(list(net.parameters()), 0.01)
