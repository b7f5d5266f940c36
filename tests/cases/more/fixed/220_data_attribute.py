import torch
w = torch.randn(3, requires_grad=True)
x = torch.randn(5, 3)
def predict(w):
    return x @ w
loss = (predict(w) - 1).pow(2).mean()
loss.backward()
