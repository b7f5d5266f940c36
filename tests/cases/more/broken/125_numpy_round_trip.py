import torch
from torch import nn
net = nn.Linear(3, 1)
def smooth(t):
    a = t.detach().numpy()  # <-- cut
    return torch.from_numpy((a + a[::-1].copy()) / 2)
pred = smooth(net(torch.randn(4, 3)))
loss = pred.pow(2).mean()
loss.backward()  # <-- fails
