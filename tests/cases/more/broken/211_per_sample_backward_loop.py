import torch
from torch import nn
net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
out = net(torch.randn(4, 3)).sigmoid()  # <-- created
losses = out.squeeze(1)
for one in losses:
    one.backward()  # <-- freed  # <-- fails
