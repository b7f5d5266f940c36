import torch
from torch import nn
class Trainer:
    def __init__(self):
        self.net = nn.Linear(3, 1)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=.1)
    def reg(self):
        return sum(p.norm() for p in self.net.parameters())
    def fit(self, n):
        for i in range(n):
            loss = self.net(torch.randn(4, 3)).square().mean() + self.reg()
            self.opt.zero_grad(); loss.backward(); self.opt.step()
Trainer().fit(3)
