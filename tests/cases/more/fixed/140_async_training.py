import asyncio, torch
from torch import nn
cell = nn.GRUCell(2, 3)
opt = torch.optim.SGD(cell.parameters(), lr=.1)
async def main():
    hidden = torch.zeros(1, 3)
    for _ in range(3):
        hidden = cell(torch.randn(1, 2), hidden.detach())
        opt.zero_grad()
        hidden.square().sum().backward()
        await asyncio.sleep(0)
        opt.step()
asyncio.run(main())
