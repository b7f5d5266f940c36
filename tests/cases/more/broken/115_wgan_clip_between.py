import torch
from torch import nn
critic = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))
x = torch.randn(5, 2, requires_grad=True)
out = critic(x).mean()  # <-- created
with torch.no_grad():
    for p in critic.parameters():
        p.clamp_(-0.01, 0.01)  # <-- modified
out.backward()  # <-- fails
