import torch
from torch import nn
net = nn.Linear(4, 2)
x = torch.rand(2, 4)
delta = torch.zeros(2, 4, requires_grad=True)
for _ in range(3):
    loss = nn.functional.cross_entropy(net(x + delta), torch.tensor([0, 1]))
    loss.backward()
    delta.data = (delta + 0.1 * delta.grad.detach().sign()).clamp(-.3, .3)
    delta.grad.zero_()
