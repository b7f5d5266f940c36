import torch
from torch import nn
net = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1))
for p in net.parameters():
    p.requires_grad = False  # <-- cut
loss = net(torch.randn(4, 3)).mean()
loss.backward()  # <-- fails
