import copy, random, torch
from collections import deque
from torch import nn
q = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
target = copy.deepcopy(q)
opt = torch.optim.Adam(q.parameters())
memory = deque(maxlen=20)
for step in range(12):
    s = torch.randn(3)
    with torch.no_grad():
        a = q(s).argmax().item()
    memory.append((s, a, random.random(), torch.randn(3)))
    if len(memory) >= 4:
        batch = random.sample(memory, 4)
        s_, a_, r_, n_ = map(list, zip(*batch))
        s_, n_ = torch.stack(s_), torch.stack(n_)
        now = q(s_).gather(1, torch.tensor(a_)[:, None]).squeeze(1)
        goal = torch.tensor(r_) + .9 * target(n_).max(1).values.detach()
        loss = nn.functional.smooth_l1_loss(now, goal)
        opt.zero_grad()
        loss.backward()
        opt.step()
    if step % 5 == 0:
        target.load_state_dict(q.state_dict())
    for a, b in zip(target.parameters(), q.parameters()):
        a.data.mul_(.9).add_(b.data, alpha=.1)
