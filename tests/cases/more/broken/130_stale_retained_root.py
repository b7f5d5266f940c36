import torch
from torch import nn
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=.1)
x = torch.randn(5, 3)
loss = net(x).mean()
for i in range(3):
    opt.zero_grad()
    loss.backward(retain_graph=True)  # <-- wrong
    opt.step()
