import torch
w = torch.ones(3, requires_grad=True)
scale = torch.ones(3)
def f():
    return (w * scale).sum()  # <-- created
loss = f()
scale += 1  # <-- modified
loss.backward()  # <-- fails
