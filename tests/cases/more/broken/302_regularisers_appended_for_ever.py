import torch
from torch import nn
class Trainer:
    def __init__(self):
        self.net = nn.Linear(3, 1)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=.1)
        self.regs = []
    def reg(self):
        for p in self.net.parameters():
            self.regs.append(p.norm())  # <-- created
        return sum(self.regs)
    def fit(self, n):
        for i in range(n):
            loss = self.net(torch.randn(4, 3)).square().mean() + self.reg()
            self.opt.zero_grad(); loss.backward(); self.opt.step()  # <-- freed  # <-- fails
Trainer().fit(3)
