import torch
w = torch.zeros(3, requires_grad=True)
x = torch.randn(10, 3)
opt = torch.optim.LBFGS([w], max_iter=4)
phi = (x @ w).exp()  # <-- created
def closure():
    opt.zero_grad()
    loss = (phi - 2).square().sum()
    loss.backward()  # <-- freed  # <-- fails
    return loss
opt.step(closure)
