import torch

x = torch.linspace(-1, 1, 5, requires_grad=True)
y = x.exp()
loss = (y * y).sum()
print(y.grad_fn._saved_result)
loss.backward()
