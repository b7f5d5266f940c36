import torch
x = torch.ones(3, requires_grad=True)
h = torch.ones(3)
for t in range(5):
    h = (h * x).sin()
    h.sum().backward(retain_graph=True)  # <-- wrong
print(x.grad is not None)
