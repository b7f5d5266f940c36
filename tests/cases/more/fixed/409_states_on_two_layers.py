import torch
from torch import nn


class Spiking(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Linear(inputs, outputs)
        self.volt = torch.zeros(outputs)

    def forward(self, x):
        self.volt = 0.9 * self.volt + self.weight(x)
        return torch.sigmoid(self.volt)


net = nn.Sequential(Spiking(3, 6), Spiking(6, 2))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    loss = net(torch.randn(4, 3)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    net[1].volt = net[1].volt.detach(); net[0].volt = net[0].volt.detach()
    opt.step()
