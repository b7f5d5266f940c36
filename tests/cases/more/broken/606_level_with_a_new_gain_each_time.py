import torch

gain = torch.tensor(0.2, requires_grad=True)
level = torch.zeros(())
for reading in torch.linspace(0, 1, 12):
    level = level + torch.sigmoid(gain) * (reading - level)
    (slope,) = torch.autograd.grad((reading - level).square(), gain)  # <-- wrong
    gain = (gain - 0.1 * slope).detach().requires_grad_()
