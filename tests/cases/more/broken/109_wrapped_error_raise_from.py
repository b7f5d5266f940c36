import torch
w = torch.randn(3, requires_grad=True)
opt = torch.optim.SGD([w], lr=0.1)
class TrainError(Exception):
    pass
def step(prev):
    cur = (prev * w).sin()  # <-- created
    loss = cur.sum()
    loss.backward()  # <-- freed  # <-- fails
    opt.step(); opt.zero_grad()
    return cur
prev = torch.ones(3)
try:
    for _ in range(3):
        prev = step(prev)
except RuntimeError as e:
    raise TrainError("it broke") from e
