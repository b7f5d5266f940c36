import torch
from torch import nn
G, D = nn.Linear(2, 3), nn.Linear(3, 1)
og, od = torch.optim.SGD(G.parameters(), lr=.1), torch.optim.SGD(D.parameters(), lr=.1)
for step in range(3):
    fake = G(torch.randn(4, 2))
    d_loss = D(fake.detach()).mean() - D(torch.randn(4, 3)).mean()
    od.zero_grad()
    d_loss.backward()
    od.step()
    og.zero_grad()
    g_loss = -D(fake).mean()
    g_loss.backward()
    og.step()
