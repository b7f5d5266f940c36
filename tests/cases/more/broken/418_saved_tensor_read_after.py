import torch

x = torch.linspace(-1, 1, 5, requires_grad=True)
y = x.exp()  # <-- created
loss = (y * y).sum()
loss.backward()  # <-- freed
print(y.grad_fn._saved_result)  # <-- fails
