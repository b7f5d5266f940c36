import torch
from torch import nn

torch.manual_seed(0)


class Dynamics(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))

    def step(self, y, dt):
        return y + dt * self.net(y)  # <-- created


def simulate(model, y0, dt=0.1):
    y = y0
    while True:
        y = model.step(y, dt)
        yield y


model = Dynamics()
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
trajectory = simulate(model, torch.tensor([[1.0, 0.0]]))
for k in range(5):
    y = next(trajectory)
    target = torch.tensor([[1.0 - 0.1 * k, 0.1 * k]])
    loss = (y - target).abs().sum()
    opt.zero_grad()
    loss.backward()  # <-- freed  # <-- fails
    opt.step()
    if k % 2 == 0:
        print("step", k)
