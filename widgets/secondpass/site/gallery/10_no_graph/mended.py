import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

for batch in torch.randn(2, 5, 3):
    scores = net(batch)
    share = scores.softmax(dim=1)
    loss = share[:, 1].mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
