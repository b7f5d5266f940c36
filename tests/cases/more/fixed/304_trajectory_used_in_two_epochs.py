import torch
from torch import nn
def rollout(policy, n):
    return [torch.distributions.Normal(policy(torch.randn(3)), 1.0).rsample() for _ in range(n)]
policy, model = nn.Linear(3, 2), nn.Linear(2, 1)
opt = torch.optim.Adam([*policy.parameters(), *model.parameters()])
for epoch in range(2):
    for t in rollout(policy, 4):
        loss = model(t).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
