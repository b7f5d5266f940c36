import torch
from torch import nn
class Stack(nn.Module):
    def __init__(self, depth=2):
        super().__init__()
        self.cells = nn.ModuleList(nn.GRUCell(3, 3) for _ in range(depth))
        self.states = [None] * depth
    def forward(self, x):
        for i, cell in enumerate(self.cells):
            x = self.states[i] = cell(x, self.states[i])  # <-- created
        return x
net = Stack()
opt = torch.optim.Adam(net.parameters())
for x in torch.randn(3, 2, 3):
    out = net(x)
    opt.zero_grad()
    out.sum().backward()  # <-- freed  # <-- fails
    opt.step()
