import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
net = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
x = torch.randn(2, 3, requires_grad=True)
h = checkpoint(net, x, use_reentrant=False)
(h.sum() + h.mean()).backward()
