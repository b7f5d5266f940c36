import torch
from torch import nn
from contextlib import contextmanager
@contextmanager
def timer(name):
    yield
enc = nn.LSTM(3, 4, batch_first=True)
opt = torch.optim.Adam(enc.parameters())
hx = None
losses = []
with timer("train"):
    for i, x in enumerate(torch.randn(4, 2, 5, 3)):
        out, hx = enc(x, hx)  # <-- created
        losses.append(out.pow(2).mean())
        if (i + 1) % 2 == 0:
            opt.zero_grad()
            torch.stack(losses).mean().backward()  # <-- freed  # <-- fails
            opt.step()
            losses.clear()
