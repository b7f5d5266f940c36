import torch

torch.manual_seed(0)
coords = torch.randn(6, 2, requires_grad=True)
opt = torch.optim.LBFGS([coords], max_iter=4)

scaled = coords * 2.0
dist = torch.cdist(scaled, scaled.detach() + 1)
energy = (dist - 1).pow(2).mean()  # <-- created


def closure():
    opt.zero_grad()
    loss = energy + 0.0
    loss.backward()  # <-- freed  # <-- fails
    return loss


opt.step(closure)
