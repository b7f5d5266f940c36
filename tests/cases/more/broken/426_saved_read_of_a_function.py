import torch


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        return 2 * ctx.saved_tensors[0] * grad


x = torch.ones(3, requires_grad=True)
loss = Square.apply(x).sum()  # <-- created
loss.backward()  # <-- freed
node = loss.grad_fn.next_functions[0][0]
print(node.saved_tensors)  # <-- fails
