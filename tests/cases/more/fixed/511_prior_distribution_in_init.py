"""A variational model whose prior, with a learned width, is a distribution built in __init__."""
import torch
from torch import nn
from torch.distributions import Normal, kl_divergence


class Vae(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.dec = nn.Linear(6, 4), nn.Linear(2, 6)
        self.width = nn.Parameter(torch.zeros(2))

    def elbo(self, x):
        mean, log_std = self.enc(x).chunk(2, -1)
        post = Normal(mean, log_std.exp())
        prior = Normal(torch.zeros(2), self.width.exp())
        kl = kl_divergence(post, prior).sum(-1)
        return (self.dec(post.rsample()) - x).square().sum(-1).mean() + kl.mean()


vae = Vae()
opt = torch.optim.SGD(vae.parameters(), lr=1e-3, momentum=0.9)
for x in torch.randn(3, 5, 6):
    loss = vae.elbo(x)
    opt.zero_grad()
    loss.backward()
    opt.step()
