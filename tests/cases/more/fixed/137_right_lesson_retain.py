import torch
x = torch.tensor([2.0], requires_grad=True)
y = x ** 2
y.backward(retain_graph=True)
print(x.grad)
y.backward()
print(x.grad)
for _ in range(2):
    y = x ** 2
    y.backward()
    print("grad", x.grad)
    x.grad.zero_()
