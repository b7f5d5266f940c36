import torch
from torch import nn
net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
out = net(torch.randn(4, 3)).sigmoid()
losses = out.squeeze(1)
for i, one in enumerate(losses):
    one.backward(retain_graph=i + 1 < len(losses))
