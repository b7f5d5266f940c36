import torch
from torch import nn
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=.1)
total = 0.0
for i in range(5):
    loss = net(torch.randn(4, 3)).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    total += loss  # <-- wrong
print(float(total) > 0)
