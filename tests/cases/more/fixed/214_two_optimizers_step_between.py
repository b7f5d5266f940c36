import torch
from torch import nn
enc = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
o1 = torch.optim.Adam(enc.parameters())
x = torch.randn(6, 3)
z = enc(x)
a, b = z[:, 0].mean(), z[:, 1].mean()
o1.zero_grad()
a.backward(retain_graph=True)
b.backward()
o1.step()
