import torch
ns = {"torch": torch, "w": torch.ones(2, requires_grad=True)}
exec("loss = (w ** 3).sum()", ns)  # <-- created
ns["loss"].backward()  # <-- freed
ns["loss"].backward()  # <-- fails
