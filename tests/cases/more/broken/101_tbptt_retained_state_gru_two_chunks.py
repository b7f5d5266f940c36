import torch
from torch import nn
torch.manual_seed(0)
gru = nn.GRU(3, 5)
head = nn.Linear(5, 1)
params = [*gru.parameters(), *head.parameters()]
opt = torch.optim.Adam(params)
def chunks(seq, n):
    for i in range(0, len(seq), n):
        yield seq[i:i + n]
state = None
for chunk in chunks(torch.randn(12, 2, 3), 4):
    out, state = gru(chunk, state)  # <-- created
    loss = head(out).square().mean()
    opt.zero_grad()
    loss.backward()  # <-- freed  # <-- fails
    opt.step()
