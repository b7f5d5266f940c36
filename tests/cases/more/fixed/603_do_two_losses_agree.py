import torch
from torch import nn

body, red, blue = nn.Linear(4, 6), nn.Linear(6, 1), nn.Linear(6, 1)
opt = torch.optim.SGD([*body.parameters(), *red.parameters(), *blue.parameters()], lr=0.1)
mid = body(torch.randn(5, 4)).tanh()
loss_red, loss_blue = red(mid).square().mean(), blue(mid).abs().mean()
of_red = torch.autograd.grad(loss_red, body.weight, retain_graph=True)[0]
of_blue = torch.autograd.grad(loss_blue, body.weight, retain_graph=True)[0]
agree = (of_red * of_blue).sum()
loss = loss_red + (loss_blue if agree > 0 else 0.1 * loss_blue)
loss.backward()
opt.step()
