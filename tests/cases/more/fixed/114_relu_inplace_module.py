import torch
from torch import nn
lin = nn.Linear(3, 3)
act = nn.ReLU(inplace=True)
x = torch.randn(4, 3)
h = torch.sigmoid(lin(x))
y = act(h + 0)
loss = y.sum()
loss.backward()
