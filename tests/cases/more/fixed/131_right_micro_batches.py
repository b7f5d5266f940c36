import torch
from torch import nn
net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
opt = torch.optim.AdamW(net.parameters())
seen = []
for step in range(6):
    losses = []
    for micro in range(4):
        loss = net(torch.randn(4, 3)).square().mean() / 4
        loss.backward()
        losses.append(loss.item())
        print(net[0].weight.grad.norm() > -1)
        seen.append(float(net[0].weight.grad.abs().max()))
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    opt.step()
    opt.zero_grad()
