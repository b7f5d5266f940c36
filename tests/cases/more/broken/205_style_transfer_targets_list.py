import torch
from torch import nn
torch.manual_seed(0)
vgg = nn.ModuleList([nn.Conv2d(1, 2, 3), nn.Conv2d(2, 2, 3)])
def grams(img):
    out = []
    for conv in vgg:
        img = conv(img).relu()
        f = img.flatten(2)
        out.append(f @ f.transpose(1, 2))  # <-- created
    return out
targets = grams(torch.rand(1, 1, 8, 8))
img = torch.rand(1, 1, 8, 8, requires_grad=True)
opt = torch.optim.Adam([img])
for _ in range(2):
    loss = sum(((a - b) ** 2).mean() for a, b in zip(grams(img), targets))
    opt.zero_grad()
    loss.backward()  # <-- freed  # <-- fails
    opt.step()
