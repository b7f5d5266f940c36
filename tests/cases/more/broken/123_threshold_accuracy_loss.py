import torch
from torch import nn
net = nn.Linear(3, 1)
x, y = torch.randn(8, 3), torch.randint(0, 2, (8, 1))
p = torch.sigmoid(net(x))
hard = (p > 0.5).float()  # <-- cut
loss = (hard - y).abs().mean()
loss.backward()  # <-- fails
