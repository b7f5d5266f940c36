import torch
from torch import nn


class MemoryNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.key, self.write, self.out = nn.Linear(3, 4), nn.Linear(3, 4), nn.Linear(8, 1)
        self.memory = [torch.zeros(4) for _ in range(3)]
        self.cursor = 0

    def forward(self, x):
        q = self.key(x)
        bank = torch.stack(self.memory)
        read = torch.softmax(bank @ q, 0) @ bank
        self.memory[self.cursor] = torch.tanh(self.write(x))
        self.cursor = (self.cursor + 1) % 3
        return self.out(torch.cat([q, read]))


net = MemoryNet()
opt = torch.optim.Adam(net.parameters())
for _ in range(5):
    loss = net(torch.randn(3)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    net.memory[:] = [one.detach() for one in net.memory]
    opt.step()
