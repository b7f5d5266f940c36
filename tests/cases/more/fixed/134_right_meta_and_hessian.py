import torch
from torch import nn
from torch.func import functional_call, grad, vmap, jacrev
net = nn.Linear(3, 1)
opt = torch.optim.Adam(net.parameters())
for task in range(4):
    x, y = torch.randn(6, 3), torch.randn(6, 1)
    params = dict(net.named_parameters())
    inner = (functional_call(net, params, (x,)) - y).square().mean()
    gs = torch.autograd.grad(inner, list(params.values()), create_graph=True)
    fast = {k: p - 0.1 * g for (k, p), g in zip(params.items(), gs)}
    outer = (functional_call(net, fast, (x,)) - y).square().mean()
    opt.zero_grad()
    outer.backward()
    opt.step()
def loss(params, x):
    return functional_call(net, params, (x,)).square().mean()
params = {k: v.detach() for k, v in net.named_parameters()}
g = vmap(grad(loss), in_dims=(None, 0))(params, torch.randn(4, 2, 3))
h = torch.autograd.functional.hessian(lambda t: (t ** 3).sum(), torch.ones(3))
j = jacrev(lambda t: t.sin())(torch.ones(3))
print(g["weight"].shape, h.shape, j.shape)
