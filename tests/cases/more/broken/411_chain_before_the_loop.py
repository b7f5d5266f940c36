import torch
from torch import nn

enc, dec = nn.Linear(4, 3), nn.Linear(3, 4)
opt = torch.optim.Adam([*enc.parameters(), *dec.parameters()])
x = torch.randn(8, 4)

hidden = enc(x)
code = torch.tanh(hidden)
norm = code.norm(dim=1, keepdim=True)
for _ in range(3):
    loss = (dec(code / norm) - x).pow(2).mean()
    opt.zero_grad()
    loss.backward()  # <-- freed  # <-- fails
    opt.step()
