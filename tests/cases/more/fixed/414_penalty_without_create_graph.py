import torch
from torch import nn

critic = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
opt = torch.optim.Adam(critic.parameters())
for _ in range(2):
    real, fake = torch.randn(8, 2), torch.randn(8, 2)
    mix = (0.5 * real + 0.5 * fake).requires_grad_()
    scores = critic(mix)
    grads = torch.autograd.grad(scores.sum(), mix, create_graph=True)[0]
    penalty = (grads.norm(dim=1) - 1).pow(2).mean()
    loss = critic(fake).mean() - critic(real).mean() + 10 * penalty + 0.01 * scores.pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
