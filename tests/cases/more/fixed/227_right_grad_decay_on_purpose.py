import torch
from torch import nn
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=.1)
for i in range(5):
    loss = net(torch.randn(4, 3)).square().mean()
    loss.backward()
    opt.step()
    for p in net.parameters():
        p.grad.mul_(0.5)
