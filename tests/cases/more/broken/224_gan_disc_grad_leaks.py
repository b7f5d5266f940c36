import torch
from torch import nn
torch.manual_seed(0)
G, D = nn.Linear(2, 3), nn.Linear(3, 1)
og, od = torch.optim.SGD(G.parameters(), lr=.1), torch.optim.SGD(D.parameters(), lr=.1)
for step in range(3):
    fake = G(torch.randn(4, 2))
    d_loss = D(fake.detach()).mean() - D(torch.randn(4, 3)).mean()
    d_loss.backward()  # <-- wrong
    od.step()
    og.zero_grad()
    g_loss = -D(fake).mean()
    g_loss.backward()
    og.step()
