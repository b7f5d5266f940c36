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
def advance(state, x):
    return State(
        torch.sigmoid(  # <-- created
            cell(x) + state.mem),
        state.t + 1)
for x in torch.randn(3, 2, 3):
    state = advance(state, x)
    loss = (state.mem ** 2).mean()
    opt.zero_grad()
    loss.backward()  # <-- freed  # <-- fails
    opt.step()
