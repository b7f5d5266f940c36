import torch
from torch import nn

front, back = nn.Sequential(nn.Linear(4, 6), nn.Tanh()), nn.Linear(6, 1)
opt = torch.optim.SGD([*front.parameters(), *back.parameters()], lr=0.1)
seen = []
entry = torch.randn(5, 4, requires_grad=True)
middle = front(entry)


def watch(grad):
    with torch.enable_grad():
        energy = middle.square().sum()
    seen.append(torch.autograd.grad(energy, entry, retain_graph=True)[0])


output = back(middle)
output.register_hook(watch)
output.sum().backward()
opt.step()
