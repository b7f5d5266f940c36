import torch
from torch import nn

torch.manual_seed(0)
gen, disc = nn.Linear(3, 2), nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
gen_opt, disc_opt = torch.optim.Adam(gen.parameters()), torch.optim.Adam(disc.parameters())
for _ in range(2):
    fake = gen(torch.randn(6, 3))
    fake_score = disc(fake)  # <-- created
    disc_loss = fake_score.mean() - disc(torch.randn(6, 2)).mean()
    disc_opt.zero_grad()
    disc_loss.backward()  # <-- freed
    disc_opt.step()
    gen_loss = -fake_score.mean()
    gen_opt.zero_grad()
    gen_loss.backward()  # <-- fails
    gen_opt.step()
