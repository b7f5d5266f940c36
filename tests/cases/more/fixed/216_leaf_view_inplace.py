import torch
w = torch.zeros(4)
w[0] = 1.0
w.requires_grad_()
w.sum().backward()
