import torch

torch.manual_seed(0)
scale = torch.zeros(3, requires_grad=True)
weight = torch.randn(3, requires_grad=True)
optimizer = torch.optim.SGD([scale, weight], lr=0.1)
data = torch.randn(8, 3)

factor = scale.exp()
for step in range(3):
    loss = (data * factor * weight).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
