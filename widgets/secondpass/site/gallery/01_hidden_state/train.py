import torch
from torch import nn

torch.manual_seed(0)
rnn = nn.LSTM(4, 8, batch_first=True)
head = nn.Linear(8, 1)
optimizer = torch.optim.SGD([*rnn.parameters(), *head.parameters()], lr=0.1)

hidden = None
for batch in torch.randn(3, 2, 5, 4):
    output, hidden = rnn(batch, hidden)
    loss = head(output).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
