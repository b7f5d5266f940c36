import torch
from torch import nn
emb = nn.Embedding(5, 3, max_norm=1.0)
opt = torch.optim.SGD(emb.parameters(), lr=.1)
for i in range(4):
    loss = emb(torch.tensor([i, 1])).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
