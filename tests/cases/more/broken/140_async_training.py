import asyncio, torch
from torch import nn
cell = nn.GRUCell(2, 3)
opt = torch.optim.SGD(cell.parameters(), lr=.1)
async def fetch():
    await asyncio.sleep(0)
    return torch.randn(1, 2)
async def main():
    hidden = torch.zeros(1, 3)
    for _ in range(3):
        hidden = cell(await fetch(),  # <-- created
                      hidden)  # <-- x
        opt.zero_grad()
        await learn(hidden)
        opt.step()
async def learn(h):
    h.square().sum().backward()  # <-- freed  # <-- fails
asyncio.run(main())
