import torch
from torch import nn
from torch.func import functional_call

net = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
meta = torch.optim.Adam(net.parameters())


def adapt(params, x, y):
    loss = (functional_call(net, params, (x,)) - y).pow(2).mean()
    grads = torch.autograd.grad(loss, list(params.values()), create_graph=True)
    return {k: p - 0.1 * g for (k, p), g in zip(params.items(), grads)}  # <-- created


for _ in range(2):
    params = dict(net.named_parameters())
    meta.zero_grad()
    for task in range(2):
        x = torch.randn(5, 1)
        params = adapt(params, x, x.sin())
        loss = (functional_call(net, params, (x,)) - x.sin()).pow(2).mean()
        loss.backward()  # <-- freed  # <-- fails
    meta.step()
