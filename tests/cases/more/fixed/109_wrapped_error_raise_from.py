import torch
w = torch.randn(3, requires_grad=True)
opt = torch.optim.SGD([w], lr=0.1)
def step(prev):
    cur = (prev * w).sin()
    loss = cur.sum()
    loss.backward()
    opt.step(); opt.zero_grad()
    return cur.detach()
prev = torch.ones(3)
for _ in range(3):
    prev = step(prev)
