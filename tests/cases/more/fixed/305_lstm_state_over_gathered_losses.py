import torch
from torch import nn
enc = nn.LSTM(3, 4, batch_first=True)
opt = torch.optim.Adam(enc.parameters())
hx = None
losses = []
for i, x in enumerate(torch.randn(8, 2, 5, 3)):
    out, hx = enc(x, hx)
    losses.append(out.pow(2).mean())
    if (i + 1) % 2 == 0:
        opt.zero_grad()
        torch.stack(losses).mean().backward()
        opt.step()
        losses.clear()
        hx = tuple(h.detach() for h in hx)
