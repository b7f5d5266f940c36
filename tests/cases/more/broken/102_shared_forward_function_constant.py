import torch
from torch import nn
class Enc(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(3, 4)
    def forward(self, x):
        return self.l(x).tanh()  # <-- created
enc = Enc()
opt = torch.optim.SGD(enc.parameters(), lr=.1)
anchor = enc(torch.randn(2, 3))
for i in range(3):
    got = enc(torch.randn(2, 3))
    loss = (got - anchor).square().sum()
    opt.zero_grad()
    loss.backward()  # <-- freed  # <-- fails
    opt.step()
