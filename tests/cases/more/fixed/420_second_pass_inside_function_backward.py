import torch


class Solve(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        ctx.save_for_backward(a)
        return a.tanh()

    @staticmethod
    def backward(ctx, grad):
        (a,) = ctx.saved_tensors
        a = a.detach().requires_grad_()
        with torch.enable_grad(): again = a.tanh()
        return torch.autograd.grad(again, a, grad)[0]


w = torch.ones(3, requires_grad=True)
Solve.apply(w).sum().backward()
