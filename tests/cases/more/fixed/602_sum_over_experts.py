import torch
from torch import nn

torch.manual_seed(0)
stem = nn.Sequential(nn.Linear(4, 6), nn.Tanh())
experts = nn.ModuleList([nn.Linear(6, 1) for _ in range(3)])
opt = torch.optim.SGD([*stem.parameters(), *experts.parameters()], lr=0.1)
for batch in torch.randn(2, 5, 4):
    opt.zero_grad()
    code = stem(batch)
    total = 0.0
    for expert in experts:
        miss = expert(code).square().mean()
        total = total + miss
    total.backward()
    opt.step()
