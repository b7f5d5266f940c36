import torch
from torch import nn
net = nn.Linear(3, 1)
losses = []
for x in torch.randn(3, 4, 3):
    losses.append(net(x).square().mean())
loss = torch.stack(losses).mean()
loss.backward()
