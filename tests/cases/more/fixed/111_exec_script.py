import torch
ns = {"torch": torch, "w": torch.ones(2, requires_grad=True)}
exec("loss = (w ** 3).sum()", ns)
ns["loss"].backward()
