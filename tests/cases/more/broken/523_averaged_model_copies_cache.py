"""AveragedModel deep-copies a model that keeps its attention for plots."""
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel


class Attend(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.q, self.k = nn.Linear(d, d), nn.Linear(d, d)
        self.attention = None

    def forward(self, x):
        att = torch.softmax(self.q(x) @ self.k(x).t(), -1)
        self.attention = att
        return att @ x


net = nn.Sequential(Attend(3), nn.Linear(3, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
net(torch.randn(4, 3)).sum().backward()
opt.step()
averaged = AveragedModel(net)
averaged.update_parameters(net)
