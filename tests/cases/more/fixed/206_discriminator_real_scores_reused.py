import torch
from torch import nn
G, D = nn.Linear(2, 3), nn.Sequential(nn.Linear(3, 4), nn.LeakyReLU(), nn.Linear(4, 1))
og, od = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
bce = nn.BCEWithLogitsLoss()
for step in range(4):
    z, real = torch.randn(4, 2), torch.randn(4, 3)
    d_loss = bce(D(real) - D(G(z).detach()), torch.ones(4, 1))
    od.zero_grad(); d_loss.backward(); od.step()
    g_loss = bce(D(G(z)) - D(real).detach(), torch.ones(4, 1))
    og.zero_grad(); g_loss.backward(); og.step()
