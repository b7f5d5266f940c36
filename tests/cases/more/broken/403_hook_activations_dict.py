import torch
from torch import nn

net = nn.Sequential(nn.Linear(3, 6), nn.Sigmoid(), nn.Linear(6, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
acts = {"calls": 0}


def loss_of(x):
    out = net[0](x)
    sig = net[1](out)  # <-- created
    smooth = (sig - acts["sig"]).pow(2).mean() if "sig" in acts else 0.0
    acts["sig"] = sig
    acts["calls"] += 1
    return net[2](sig).pow(2).mean() + smooth


for _ in range(3):
    loss = loss_of(torch.randn(4, 3))
    opt.zero_grad()
    loss.backward()  # <-- freed  # <-- fails
    opt.step()
