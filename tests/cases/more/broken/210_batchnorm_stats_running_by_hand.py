import torch
from torch import nn
class BN(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.g = nn.Parameter(torch.ones(d))
        self.mean = torch.zeros(d)
    def forward(self, x):
        mu = x.mean(0)
        self.mean = 0.9 * self.mean + 0.1 * mu  # <-- created
        return (x - self.mean) * self.g
lin, bn = nn.Linear(3, 3), BN(3)
opt = torch.optim.SGD([*lin.parameters(), *bn.parameters()], lr=.1)
for i in range(3):
    loss = bn(lin(torch.randn(5, 3))).square().mean()
    opt.zero_grad()
    loss.backward()  # <-- freed  # <-- fails
    opt.step()
