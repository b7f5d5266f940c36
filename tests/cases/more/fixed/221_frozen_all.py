import torch
from torch import nn
net = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1))
for p in net[0].parameters():
    p.requires_grad = False
loss = net(torch.randn(4, 3)).mean()
loss.backward()
