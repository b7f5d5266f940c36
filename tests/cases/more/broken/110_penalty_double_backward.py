import torch
from torch import nn
critic = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
opt = torch.optim.Adam(critic.parameters())
x = torch.randn(5, 3, requires_grad=True)
scores = critic(x)  # <-- created
g, = torch.autograd.grad(scores.sum(), x)  # <-- freed
penalty = (g.norm(dim=1) - 1).square().mean()
loss = scores.mean() + penalty
loss.backward()  # <-- fails
opt.step()
