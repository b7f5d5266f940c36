import torch
x = torch.ones(3, requires_grad=True)
h = torch.ones(3)
total = 0
for t in range(5):
    h = (h * x).sin()
    total = total + h.sum()
total.backward()
print(x.grad is not None)
