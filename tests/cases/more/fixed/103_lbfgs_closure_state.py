import torch
torch.manual_seed(0)
w = torch.zeros(3, requires_grad=True)
x = torch.randn(10, 3)
opt = torch.optim.LBFGS([w], max_iter=4)
def closure():
    opt.zero_grad()
    loss = ((x @ w).exp() - 2).square().sum()
    loss.backward()
    return loss
for _ in range(3):
    opt.step(closure)
