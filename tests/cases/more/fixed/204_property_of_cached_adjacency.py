import torch
from torch import nn
class GCN(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.emb = nn.Parameter(torch.randn(n, 4))
        self.lin = nn.Linear(4, 2)
    @property
    def adj(self):
        return torch.softmax(self.emb @ self.emb.t(), 1)
    def forward(self, x):
        return self.lin(self.adj @ x)
net = GCN(5)
opt = torch.optim.Adam(net.parameters())
for epoch in range(3):
    loss = net(torch.randn(5, 4)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
