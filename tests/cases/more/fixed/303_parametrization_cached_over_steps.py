import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize
lin = parametrizations.weight_norm(nn.Linear(3, 3))
opt = torch.optim.SGD(lin.parameters(), lr=.1)
for i in range(3):
    with parametrize.cached():
        loss = lin(torch.randn(2, 3)).square().mean()
        opt.zero_grad()
        loss.backward()
    opt.step()
