import torch
from torch import nn
critic = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
opt = torch.optim.Adam(critic.parameters())
for _ in range(4):
    x = torch.randn(5, 3, requires_grad=True)
    scores = critic(x)
    g, = torch.autograd.grad(scores.sum(), x, create_graph=True)
    penalty = (g.norm(dim=1) - 1).square().mean()
    loss = scores.mean() + penalty
    opt.zero_grad()
    loss.backward()
    opt.step()
