"""A penalty that is a default argument."""
import torch
from torch import nn

net = nn.Linear(5, 2)
opt = torch.optim.Adam(net.parameters())


def objective(out, target, reg=lambda: net.weight.square().sum()):
    return nn.functional.cross_entropy(out, target) + 1e-3 * reg()


for epoch in range(3):
    for batch in torch.randn(2, 4, 5):
        opt.zero_grad()
        objective(net(batch), torch.tensor([0, 1, 0, 1])).backward()
        opt.step()
