"""A mixture over a ParameterList is bound once into the forward function by partial."""
import functools

import torch
from torch import nn

atoms = nn.ParameterList([nn.Parameter(torch.randn(4)) for _ in range(3)])
mixer = nn.Linear(2, 3)


def reconstruct(x, basis):
    return mixer(x).softmax(-1) @ basis


def mixture():
    return torch.stack(list(atoms)).softmax(dim=-1)


forward = functools.partial(reconstruct, basis=mixture())
opt = torch.optim.SGD([*atoms, *mixer.parameters()], lr=0.5)
schedule = torch.optim.lr_scheduler.StepLR(opt, 1)
for x in torch.randn(3, 7, 2):
    opt.zero_grad()
    loss = (forward(x) - 0.25).square().mean()
    loss.backward()
    opt.step()
    schedule.step()
