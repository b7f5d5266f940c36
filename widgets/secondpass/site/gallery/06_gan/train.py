import torch
from torch import nn
from torch.nn.functional import softplus

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(2, 4), nn.Tanh())
discriminator = nn.Linear(4, 1)
train_g = torch.optim.SGD(generator.parameters(), lr=0.1)
train_d = torch.optim.SGD(discriminator.parameters(), lr=0.1)

for real in torch.randn(2, 5, 4):
    fake = generator(torch.randn(5, 2))
    d_loss = softplus(-discriminator(real)).mean() + softplus(discriminator(fake)).mean()
    train_d.zero_grad()
    d_loss.backward()
    train_d.step()

    g_loss = softplus(-discriminator(fake)).mean()
    train_g.zero_grad()
    g_loss.backward()
    train_g.step()
