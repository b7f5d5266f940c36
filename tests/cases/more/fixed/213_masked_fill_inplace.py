import torch
w = torch.randn(4, requires_grad=True)
h = w.tanh()
mask = torch.tensor([True, False, True, False])
h = h.masked_fill(mask, 0.0)
h.sum().backward()
