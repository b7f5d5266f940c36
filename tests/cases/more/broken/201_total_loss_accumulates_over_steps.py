import torch
from torch import nn
net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
opt = torch.optim.SGD(net.parameters(), lr=.1)
total_loss = 0
for x in torch.randn(3, 5, 3):
    loss = net(x).square().mean()  # <-- created
    total_loss += loss
    opt.zero_grad()
    total_loss.backward()  # <-- freed  # <-- fails
    opt.step()
