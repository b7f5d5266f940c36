"""The workloads of the benchmarks, written by hand so that nothing else need be installed."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    """A pre-norm transformer block with causal attention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads = heads

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, -1).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).split(width, dim=2)
        )
        scores = q @ k.transpose(-2, -1) / (width // self.heads) ** 0.5
        mask = torch.ones(length, length, dtype=torch.bool).triu(1)
        mixed = scores.masked_fill(mask, float("-inf")).softmax(-1) @ v
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    """A decoder-only language model over 65 tokens."""

    def __init__(self, width: int, layers: int = 12, heads: int = 4, length: int = 64) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(65, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 65, bias=False)

    def forward(self, index: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        x = self.tokens(index) + self.places(torch.arange(index.shape[1]))
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), target.flatten())


class Bottleneck(nn.Module):
    """ResNet's block of three convolutions."""

    def __init__(self, wide: int, narrow: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(wide, narrow, 1, bias=False)
        self.conv2 = nn.Conv2d(narrow, narrow, 3, stride, 1, bias=False)
        self.conv3 = nn.Conv2d(narrow, 4 * narrow, 1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(narrow), nn.BatchNorm2d(narrow)
        self.bn3 = nn.BatchNorm2d(4 * narrow)
        self.short: nn.Module = nn.Identity()
        if stride != 1 or wide != 4 * narrow:
            self.short = nn.Sequential(
                nn.Conv2d(wide, 4 * narrow, 1, stride, bias=False), nn.BatchNorm2d(4 * narrow)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        return F.relu(self.bn3(self.conv3(y)) + self.short(x))


class ResNet50(nn.Module):
    """ResNet-50 over ten classes."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 64, 7, 2, 3, bias=False),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, 1),
        )
        stages, wide = [], 64
        for narrow, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            blocks = []
            for place in range(count):
                blocks.append(Bottleneck(wide, narrow, stride if place == 0 else 1))
                wide = 4 * narrow
            stages.append(nn.Sequential(*blocks))
        self.stages = nn.Sequential(*stages)
        self.head = nn.Linear(wide, 10)

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        features = self.stages(self.stem(x)).mean((2, 3))
        return F.cross_entropy(self.head(features), target)


Forward = Callable[[], torch.Tensor]


def mlp() -> tuple[nn.Module, Forward]:
    """A 64-128-128-10 MLP on a batch of 32."""
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)
    )
    x, target = torch.randn(32, 64), torch.randint(10, (32,))
    return net, lambda: F.cross_entropy(net(x), target)


def gpt(width: int = 64, layers: int = 12) -> tuple[nn.Module, Forward]:
    """A 12-layer GPT on a batch of 8 × 64 tokens."""
    torch.manual_seed(0)
    net = GPT(width, layers)
    index = torch.randint(65, (8, 65))
    return net, lambda: net(index[:, :-1], index[:, 1:])


def resnet50() -> tuple[nn.Module, Forward]:
    """A ResNet-50 on two pictures of 64 × 64."""
    torch.manual_seed(0)
    net = ResNet50()
    x, target = torch.randn(2, 3, 64, 64), torch.randint(10, (2,))
    return net, lambda: net(x, target)


def chain(length: int) -> tuple[None, Forward]:
    """A chain of additions."""
    x = torch.ones(1, requires_grad=True)

    def forward() -> torch.Tensor:
        y = x
        for _ in range(length):
            y = y + 1
        return y

    return None, forward
