import torch
from torch import nn
pi = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
opt = torch.optim.Adam(pi.parameters())
def logp_of(obs, act):
    d = torch.distributions.Categorical(logits=pi(obs))
    return d.log_prob(act)
obs, act, adv = torch.randn(6, 3), torch.randint(0, 2, (6,)), torch.randn(6)
old_logp = logp_of(obs, act).detach()
for k in range(3):
    ratio = (logp_of(obs, act) - old_logp).exp()
    loss = -(ratio * adv).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
