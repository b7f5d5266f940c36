import torch
w = torch.randn(4, requires_grad=True)
h = w.tanh()  # <-- created
mask = torch.tensor([True, False, True, False])
h.masked_fill_(mask, 0.0)  # <-- modified
h.sum().backward()  # <-- fails
