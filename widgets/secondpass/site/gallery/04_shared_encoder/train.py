import torch
from torch import nn

torch.manual_seed(0)
encoder = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
price, size = nn.Linear(8, 1), nn.Linear(8, 1)
parts = nn.ModuleList([encoder, price, size])
optimizer = torch.optim.SGD(parts.parameters(), lr=0.1)

for batch in torch.randn(2, 5, 4):
    code = encoder(batch)
    price_loss = price(code).square().mean()
    size_loss = size(code).abs().mean()
    optimizer.zero_grad()
    price_loss.backward()
    size_loss.backward()
    optimizer.step()
