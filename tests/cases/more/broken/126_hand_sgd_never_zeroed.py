import torch
torch.manual_seed(0)
w = torch.randn(3, requires_grad=True)
x, y = torch.randn(10, 3), torch.randn(10)
for epoch in range(4):
    loss = (x @ w - y).square().mean()
    loss.backward()  # <-- wrong
    with torch.no_grad():
        w -= 0.01 * w.grad
