import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)


def train_step(loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


loss = net(torch.randn(5, 3)).square().mean()
train_step(loss)  # this calls backward
