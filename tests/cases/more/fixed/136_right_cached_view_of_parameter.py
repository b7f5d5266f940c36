import torch
from torch import nn
class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(3, 3))
        self.wt = self.w.t()
    def forward(self, x):
        return (x @ self.wt).tanh() @ self.w
m = Tied()
opt = torch.optim.SGD(m.parameters(), lr=.1)
for i in range(5):
    loss = m(torch.randn(2, 3)).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
