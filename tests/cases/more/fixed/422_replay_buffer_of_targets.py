from collections import deque

import torch
from torch import nn

torch.manual_seed(0)
q = nn.Linear(3, 1)
opt = torch.optim.SGD(q.parameters(), lr=0.1)
replay = deque(maxlen=8)
for t in range(6):
    obs, after = torch.randn(3), torch.randn(3)
    target = 0.9 * q(after).sigmoid()
    replay.append((obs, target.detach()))
    loss = sum((q(o) - goal).pow(2).mean() for o, goal in replay)
    opt.zero_grad()
    loss.backward()
    opt.step()
