import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize
lin = parametrizations.weight_norm(nn.Linear(3, 3))
opt = torch.optim.SGD(lin.parameters(), lr=.1)
with parametrize.cached():
    for i in range(3):
        loss = lin(torch.randn(2, 3)).square().mean()  # <-- created
        opt.zero_grad()
        loss.backward()  # <-- freed  # <-- fails
        opt.step()
