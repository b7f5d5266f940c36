import torch
from torch import nn
a, b = nn.Linear(3, 3), nn.Linear(3, 1)
oa, ob = torch.optim.SGD(a.parameters(), lr=.01), torch.optim.SGD(b.parameters(), lr=.01)
for _ in range(3):
    loss = b(a(torch.randn(4, 3)).tanh()).square().mean()
    oa.zero_grad()
    ob.zero_grad()
    loss.backward()
    oa.step()
    ob.step()
