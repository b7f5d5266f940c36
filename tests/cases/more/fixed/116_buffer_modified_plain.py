import torch
w = torch.ones(3, requires_grad=True)
scale = torch.ones(3)
def f():
    return (w * scale).sum()
loss = f()
scale = scale + 1
loss.backward()
