"""Reptile: the slow weights are loaded between the forward pass and backward."""
import copy

import torch
from torch import nn

net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
slow = copy.deepcopy(net)
opt = torch.optim.SGD(net.parameters(), lr=0.1)


def restart(model, source):
    model.load_state_dict(source.state_dict())


for x in torch.randn(2, 5, 3):
    loss = net(x).square().mean()
    restart(net, slow)
    opt.zero_grad()
    loss.backward()
    opt.step()
