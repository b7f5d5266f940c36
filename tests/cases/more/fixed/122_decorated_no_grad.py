import torch
from torch import nn
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(3, 1)
    def features(self, x):
        return self.l(x).relu()
    def forward(self, x):
        return self.features(x) * 2
m = M()
loss = m(torch.randn(4, 3)).mean()
loss.backward()
