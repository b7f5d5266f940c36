import torch
from torch import nn
from torch.func import functional_call
net = nn.Linear(3, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
fast = {k: v * 0.9 for k, v in net.named_parameters()}  # <-- created
for step in range(2):
    x = torch.randn(4, 3)
    loss = functional_call(net, fast, (x,)).square().mean()
    opt.zero_grad()
    loss.backward()  # <-- freed  # <-- fails
    opt.step()
