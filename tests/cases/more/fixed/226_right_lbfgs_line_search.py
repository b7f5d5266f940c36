import torch
x = torch.tensor([1., 2.], requires_grad=True)
opt = torch.optim.LBFGS([x], line_search_fn="strong_wolfe")
def closure():
    opt.zero_grad()
    loss = (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2
    loss.backward()
    return loss
for _ in range(5):
    opt.step(closure)
