"""Small models for tests: each function returns a loss and the parameters behind it."""

from __future__ import annotations

import torch
from torch import nn


def mlp():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
    return nn.functional.cross_entropy(net(torch.randn(5, 6)), torch.tensor([0, 1, 2, 0, 1])), net


def lstm():
    torch.manual_seed(0)
    net = nn.LSTM(4, 8, num_layers=2)
    out, (h, _) = net(torch.randn(7, 2, 4))
    return out.square().mean() + h.sum(), net


def transformer():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)
    net = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    return net(torch.randn(2, 5, 16)).square().mean(), net


def cnn():
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(72, 2),
    ).to(memory_format=torch.channels_last)
    return net(torch.randn(2, 3, 8, 8)).logsumexp(1).mean(), net


MODELS = {"mlp": mlp, "lstm": lstm, "transformer": transformer, "cnn": cnn}
