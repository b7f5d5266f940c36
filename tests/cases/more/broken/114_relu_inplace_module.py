import torch
from torch import nn
lin = nn.Linear(3, 3)
act = nn.ReLU(inplace=True)
x = torch.randn(4, 3)
h = torch.sigmoid(lin(x))  # <-- created
y = act(h)  # <-- modified
loss = y.sum()
loss.backward()  # <-- fails
