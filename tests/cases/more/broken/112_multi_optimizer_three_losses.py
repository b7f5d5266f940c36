import torch
from torch import nn
body, a, b = nn.Linear(3, 4), nn.Linear(4, 1), nn.Linear(4, 2)
opts = [torch.optim.SGD(m.parameters(), lr=.1) for m in (body, a, b)]
for step in range(2):
    feat = torch.relu(body(torch.randn(5, 3)))  # <-- created
    la = a(feat).square().mean()
    lb = b(feat).abs().mean()
    for o in opts:
        o.zero_grad()
    la.backward()  # <-- freed
    lb.backward()  # <-- fails
    for o in opts:
        o.step()
