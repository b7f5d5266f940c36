import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
net = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
opt = torch.optim.Adam(net.parameters())
for step in range(4):
    x = torch.randn(3, 4, requires_grad=True)
    for l in net:
        x = checkpoint(lambda h: torch.relu(l(h)), x, use_reentrant=bool(step % 2))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = net[0](x).mean()
    opt.zero_grad(set_to_none=False)
    loss.backward()
    opt.step()
