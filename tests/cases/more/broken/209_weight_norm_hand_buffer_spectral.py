import torch
from torch import nn
class SN(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(3, 3))
        self.register_buffer("u", torch.randn(3))
    def forward(self, x):
        v = nn.functional.normalize(self.w.t() @ self.u, dim=0)
        self.u = nn.functional.normalize(self.w @ v, dim=0)  # <-- created
        sigma = self.u @ self.w @ v
        return x @ (self.w / sigma)
m = SN()
opt = torch.optim.SGD(m.parameters(), lr=.1)
for i in range(3):
    loss = m(torch.randn(4, 3)).square().mean()
    opt.zero_grad()
    loss.backward()  # <-- freed  # <-- fails
    opt.step()
