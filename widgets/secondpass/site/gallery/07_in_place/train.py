import torch
from torch import nn

torch.manual_seed(0)
cell = nn.RNNCell(3, 4)
optimizer = torch.optim.SGD(cell.parameters(), lr=0.1)

state = torch.zeros(2, 4)
for batch in torch.randn(3, 2, 3):
    state = cell(batch, state)
    loss = state.square().mean()
    optimizer.zero_grad()
    loss.backward(retain_graph=True)
    optimizer.step()
