import torch
from torch import nn

torch.manual_seed(0)
netG, netD = nn.Linear(3, 2), nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
optimizerG = torch.optim.Adam(netG.parameters())
optimizerD = torch.optim.Adam(netD.parameters())
bce = nn.BCEWithLogitsLoss()
for _ in range(2):
    fake = netG(torch.randn(6, 3))
    output = netD(fake)
    errD = bce(netD(torch.randn(6, 2)), torch.ones(6, 1)) + bce(netD(fake.detach()), torch.zeros(6, 1))
    errG = bce(output, torch.ones(6, 1))
    optimizerD.zero_grad()
    errD.backward()
    optimizerG.zero_grad()
    errG.backward()
    optimizerD.step()
    optimizerG.step()
