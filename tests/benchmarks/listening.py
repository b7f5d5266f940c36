"""What listening costs: bare, listened to, and under anomaly mode, side by side in one run.

Run it with ``python tests/benchmarks/listening.py``. Processor seconds of one thread are counted,
over rounds that take turns, so that a busy machine disturbs little.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import process_time

import torch
from torch import nn

from secondpass.explaining import listening
from secondpass.hearing import loading

HERE = Path(__file__).parent
ROUNDS = 12

TRAIN = """
def train(net, opt, batch, steps):
    for _ in range(steps):
        loss = net(*batch)
        opt.zero_grad()
        loss.backward()
        opt.step()

class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two, self.three = nn.Linear(64, 128), nn.Linear(128, 128), nn.Linear(128, 10)

    def forward(self, x, target):
        x = F.relu(self.one(x))
        x = F.relu(self.two(x))
        return F.cross_entropy(self.three(x), target)
"""


def load(marked: bool) -> types.ModuleType:
    """Load the workloads, with or without marks."""
    source = (HERE / "workloads.py").read_text() + TRAIN
    name = f"workloads_{'marked' if marked else 'bare'}"
    module = sys.modules[name] = types.ModuleType(name)
    path = f"/home/me/{name}.py"
    code = loading.compile_marked(source, path) if marked else compile(source, path, "exec")
    exec(code, module.__dict__)
    return module


def measure(make: Callable[[types.ModuleType], tuple[nn.Module, tuple]], steps: int) -> list[float]:
    """Return the median seconds of a step: bare, listened to, under anomaly mode."""
    loading.install_marks()
    ways = []
    for marked in (False, True):
        module = load(marked)
        torch.manual_seed(0)
        net, batch = make(module)
        opt = torch.optim.SGD(net.parameters(), lr=1e-3)
        ways.append((module.train, net, opt, batch))
    seconds: list[list[float]] = [[], [], []]
    listening.start()  # one listener for the whole run, as for a script
    listening.stop()
    for _ in range(ROUNDS + 1):
        for way in range(3):
            train, net, opt, batch = ways[way == 1]
            if way == 1:
                listening.resume()
            count = steps if way < 2 else max(1, steps // 4)
            with torch.autograd.set_detect_anomaly(way == 2, check_nan=False):
                begin = process_time()
                train(net, opt, batch, count)
                seconds[way].append((process_time() - begin) / count)
            if way == 1:
                listening.stop()
    return [median(one[1:]) for one in seconds]


def mlp(module: types.ModuleType) -> tuple[nn.Module, tuple]:
    return module.MLP(), (torch.randn(32, 64), torch.randint(0, 10, (32,)))


def gpt(module: types.ModuleType) -> tuple[nn.Module, tuple]:
    tokens = torch.randint(0, 65, (4, 64))
    return module.GPT(64), (tokens, tokens)


def main() -> None:
    torch.set_num_threads(1)  # threads that wait for each other measure the machine, not us
    print(f"{'':28}{'bare':>9}{'listened':>11}{'anomaly':>10}   of what anomaly adds")
    for name, make, steps, budget in (
        ("MLP 64-128-128-10", mlp, 200, 1.3),
        ("GPT-12 d=64", gpt, 10, 1.1),
    ):
        bare, listened, anomaly = measure(make, steps)
        print(
            f"{name:28}{bare * 1e3:7.2f}ms{listened / bare:10.2f}x{anomaly / bare:9.2f}x"
            f"{(listened - bare) / (anomaly - bare):12.0%}   (at most {budget}x, 20%)"
        )


if __name__ == "__main__":
    main()
