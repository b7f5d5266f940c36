import torch
from torch import nn
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=.1, momentum=.9)
sched = torch.optim.lr_scheduler.StepLR(opt, 2)
best = None
hist = {"loss": [], "grad": []}
for i in range(12):
    out = net(torch.randn(4, 3))
    loss = out.square().mean()
    (loss / 3).backward()
    hist["loss"].append(loss.detach())
    hist["grad"].append(net.weight.grad.clone())
    if (i + 1) % 3 == 0:
        torch.nn.utils.clip_grad_value_(net.parameters(), .5)
        opt.step()
        sched.step()
        opt.zero_grad(set_to_none=i % 2 == 0)
print(len(hist["grad"]))
