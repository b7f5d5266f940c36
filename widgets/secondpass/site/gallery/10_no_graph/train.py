import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

for batch in torch.randn(2, 5, 3):
    scores = net(batch)
    choice = scores.argmax(dim=1)
    loss = choice.float().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
