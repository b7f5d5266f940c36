import torch
from torch import nn
critic = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))
opt = torch.optim.RMSprop(critic.parameters())
for _ in range(4):
    x = torch.randn(5, 2, requires_grad=True)
    out = critic(x).mean()
    opt.zero_grad()
    out.backward()
    opt.step()
    with torch.no_grad():
        for p in critic.parameters():
            p.clamp_(-0.01, 0.01)
