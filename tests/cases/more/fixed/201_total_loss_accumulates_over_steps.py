import torch
from torch import nn
net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
opt = torch.optim.SGD(net.parameters(), lr=.1)
total_loss = 0
for x in torch.randn(3, 5, 3):
    loss = net(x).square().mean()
    total_loss += loss.detach()
    opt.zero_grad()
    loss.backward()
    opt.step()
