from dataclasses import dataclass
import torch
from torch import nn
@dataclass
class State:
    mem: torch.Tensor
    t: int = 0
cell = nn.Linear(3, 3)
opt = torch.optim.Adam(cell.parameters())
state = State(torch.zeros(2, 3))
for x in torch.randn(5, 2, 3):
    state = State(torch.sigmoid(cell(x) + state.mem.detach()), state.t + 1)
    loss = (state.mem ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
