import torch
from torch import nn
import torch.nn.functional as F
G = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 2))
D = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))
og, od = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
for step in range(6):
    real, z = torch.randn(4, 2), torch.randn(4, 2)
    fake = G(z)
    od.zero_grad()
    (F.softplus(-D(real)).mean() + F.softplus(D(fake.detach())).mean()).backward()
    od.step()
    og.zero_grad()
    F.softplus(-D(fake)).mean().backward()
    og.step()
for step in range(4):
    for p in D.parameters():
        p.grad = None
    fake = G(torch.randn(4, 2))
    D(fake.detach()).mean().backward()
    od.step()
    for p in G.parameters():
        if p.grad is not None:
            p.grad.detach_()
            p.grad.zero_()
    (-D(fake).mean()).backward()
    og.step()
