import torch


class Energy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.detach().requires_grad_()
        energy = y.pow(3).sum()
        (force,) = torch.autograd.grad(energy, y)  # <-- fails
        ctx.save_for_backward(force)
        return energy.detach()

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0]


x = torch.ones(3, requires_grad=True)
Energy.apply(x).backward()
