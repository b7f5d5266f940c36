"""Differentiable calls, one a line: each builds a tensor with a graph from literal-sized leaves.

`x` and `w` are leaves of 8 × 8 floats between 0.1 and 0.9, `c` a constant of the same size.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

Op = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad


class Attribute(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.x = x
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class Unread(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


def _module(make: Callable[[], nn.Module], shape: tuple[int, ...]) -> Op:
    def op(x, w, c):
        torch.manual_seed(0)
        result = make()(x.reshape(shape))
        return result[0] if isinstance(result, tuple) else result

    return op


def _write(x):
    base = x * 2
    base[0].mul_(3)
    return base


def _assign(x):
    base = torch.zeros(8, 8)
    base[0] = x[0]
    return base


def _index(n=8):
    return torch.arange(n) % 4


OPS: dict[str, Op] = {
    "x+1": lambda x, w, c: x + 1,
    "x+w": lambda x, w, c: x + w,
    "x-w": lambda x, w, c: x - w,
    "-x": lambda x, w, c: -x,
    "x*2": lambda x, w, c: x * 2,
    "x*c": lambda x, w, c: x * c,
    "x*w": lambda x, w, c: x * w,
    "x*x": lambda x, w, c: x * x,
    "c*c+x": lambda x, w, c: c * c + x,
    "x/2": lambda x, w, c: x / 2,
    "x/c": lambda x, w, c: x / c,
    "x/w": lambda x, w, c: x / w,
    "1/x": lambda x, w, c: 1 / x,
    "x**1": lambda x, w, c: x**1,
    "x**2": lambda x, w, c: x**2,
    "x**0": lambda x, w, c: x**0,
    "x**0.5": lambda x, w, c: x**0.5,
    "x**w": lambda x, w, c: x**w,
    "2**x": lambda x, w, c: 2**x,
    "sum": lambda x, w, c: x.sum(),
    "mean": lambda x, w, c: x.mean(),
    "sum(0)": lambda x, w, c: x.sum(0),
    "mean(0)": lambda x, w, c: x.mean(0),
    "prod": lambda x, w, c: x.prod(),
    "max": lambda x, w, c: x.max(),
    "max(0)": lambda x, w, c: x.max(0).values,
    "amax(0)": lambda x, w, c: x.amax(0),
    "norm": lambda x, w, c: x.norm(),
    "std": lambda x, w, c: x.std(),
    "var(0)": lambda x, w, c: x.var(0),
    "cumsum(0)": lambda x, w, c: x.cumsum(0),
    "logsumexp(0)": lambda x, w, c: x.logsumexp(0),
    "view": lambda x, w, c: x.view(64),
    "reshape": lambda x, w, c: x.reshape(4, 16),
    "t": lambda x, w, c: x.t(),
    "permute": lambda x, w, c: x.permute(1, 0),
    "transpose": lambda x, w, c: x.transpose(0, 1),
    "unsqueeze": lambda x, w, c: x.unsqueeze(0),
    "expand": lambda x, w, c: x.expand(3, 8, 8),
    "x[0]": lambda x, w, c: x[0],
    "x[1:3]": lambda x, w, c: x[1:3],
    "x[index]": lambda x, w, c: x[_index()],
    "x[mask]": lambda x, w, c: x[c > 0.5],
    "index_select": lambda x, w, c: x.index_select(0, _index()),
    "gather": lambda x, w, c: x.gather(0, _index().expand(8, 8)),
    "cat": lambda x, w, c: torch.cat([x, w]),
    "stack": lambda x, w, c: torch.stack([x, w]),
    "chunk": lambda x, w, c: x.chunk(2)[0],
    "split": lambda x, w, c: x.split(4)[1],
    "unbind": lambda x, w, c: x.unbind()[0],
    "contiguous": lambda x, w, c: x.t().contiguous(),
    "clone": lambda x, w, c: x.clone(),
    "double": lambda x, w, c: x.double(),
    "flatten": lambda x, w, c: x.flatten(),
    "squeeze": lambda x, w, c: x.reshape(1, 64).squeeze(),
    "repeat": lambda x, w, c: x.repeat(2, 1),
    "pad": lambda x, w, c: F.pad(x, (1, 1)),
    "flip": lambda x, w, c: x.flip(0),
    "roll": lambda x, w, c: x.roll(1),
    "tril": lambda x, w, c: x.tril(),
    "masked_fill": lambda x, w, c: x.masked_fill(c > 0.5, 0.0),
    "where": lambda x, w, c: torch.where(c > 0.5, x, w),
    "exp": lambda x, w, c: x.exp(),
    "log": lambda x, w, c: x.log(),
    "sqrt": lambda x, w, c: x.sqrt(),
    "sin": lambda x, w, c: x.sin(),
    "tanh": lambda x, w, c: x.tanh(),
    "sigmoid": lambda x, w, c: x.sigmoid(),
    "abs": lambda x, w, c: x.abs(),
    "clamp": lambda x, w, c: x.clamp(0.2, 0.8),
    "round": lambda x, w, c: x.round(),
    "sign": lambda x, w, c: x.sign(),
    "relu": lambda x, w, c: x.relu(),
    "relu_": lambda x, w, c: (x * 2).relu_(),
    "leaky_relu": lambda x, w, c: F.leaky_relu(x),
    "elu": lambda x, w, c: F.elu(x),
    "gelu": lambda x, w, c: F.gelu(x),
    "silu": lambda x, w, c: F.silu(x),
    "softplus": lambda x, w, c: F.softplus(x),
    "softmax": lambda x, w, c: x.softmax(-1),
    "log_softmax": lambda x, w, c: x.log_softmax(-1),
    "dropout": lambda x, w, c: F.dropout(x, 0.5, training=True),
    "x@w": lambda x, w, c: x @ w,
    "x@c": lambda x, w, c: x @ c,
    "c@x": lambda x, w, c: c @ x,
    "mv": lambda x, w, c: x @ w[0],
    "dot": lambda x, w, c: x[0] @ w[0],
    "bmm": lambda x, w, c: torch.bmm(x.unsqueeze(0), w.unsqueeze(0)),
    "einsum": lambda x, w, c: torch.einsum("ij,jk->ik", x, w),
    "linear": _module(lambda: nn.Linear(8, 4), (8, 8)),
    "linear 3d": _module(lambda: nn.Linear(8, 4), (2, 4, 8)),
    "addmm": lambda x, w, c: torch.addmm(c, x, w),
    "outer": lambda x, w, c: torch.outer(x[0], w[0]),
    "conv2d": _module(lambda: nn.Conv2d(1, 2, 3), (1, 1, 8, 8)),
    "max_pool2d": lambda x, w, c: F.max_pool2d(x.reshape(1, 1, 8, 8), 2),
    "avg_pool2d": lambda x, w, c: F.avg_pool2d(x.reshape(1, 1, 8, 8), 2),
    "adaptive_avg": lambda x, w, c: F.adaptive_avg_pool2d(x.reshape(1, 1, 8, 8), 1),
    "interpolate": lambda x, w, c: F.interpolate(x.reshape(1, 1, 8, 8), scale_factor=2),
    "batch_norm": _module(lambda: nn.BatchNorm2d(1), (2, 1, 4, 8)),
    "batch_norm eval": _module(lambda: nn.BatchNorm2d(1).eval(), (2, 1, 4, 8)),
    "layer_norm": _module(lambda: nn.LayerNorm(8), (8, 8)),
    "group_norm": _module(lambda: nn.GroupNorm(1, 2), (1, 2, 4, 8)),
    "embedding": lambda x, w, c: F.embedding(_index(), x),
    "mse_loss": lambda x, w, c: F.mse_loss(x, c),
    "l1_loss": lambda x, w, c: F.l1_loss(x, c),
    "cross_entropy": lambda x, w, c: F.cross_entropy(x, _index()),
    "nll_loss": lambda x, w, c: F.nll_loss(x, _index()),
    "bce_logits": lambda x, w, c: F.binary_cross_entropy_with_logits(x, c),
    "smooth_l1": lambda x, w, c: F.smooth_l1_loss(x, c),
    "kl_div": lambda x, w, c: F.kl_div(x, c, reduction="batchmean"),
    "lstm": _module(lambda: nn.LSTM(8, 4, batch_first=True), (2, 4, 8)),
    "gru": _module(lambda: nn.GRU(8, 4, batch_first=True), (2, 4, 8)),
    "attention": lambda x, w, c: _attention(x),
    "sdpa": lambda x, w, c: F.scaled_dot_product_attention(*[x.reshape(1, 1, 8, 8)] * 3),
    "Function": lambda x, w, c: Square.apply(x),
    "Function attribute": lambda x, w, c: Attribute.apply(x),
    "Function unread": lambda x, w, c: Unread.apply(x),
    "checkpoint exp": lambda x, w, c: checkpoint(torch.exp, x, use_reentrant=False),
    "checkpoint reentrant": lambda x, w, c: checkpoint(torch.exp, x, use_reentrant=True),
    "checkpoint x*2": lambda x, w, c: checkpoint(lambda t: t * 2, x, use_reentrant=False),
    "view then mul_": lambda x, w, c: _write(x),
    "a[0]=v": lambda x, w, c: _assign(x),
    "detached": lambda x, w, c: x.detach().requires_grad_() * w,
    "complex abs": lambda x, w, c: torch.complex(x, w).abs(),
    "fft": lambda x, w, c: torch.view_as_real(torch.fft.rfft(x))[..., 0],
    "svd": lambda x, w, c: torch.linalg.svd(x, full_matrices=False).S,
    "inv": lambda x, w, c: torch.linalg.inv(x + 8 * torch.eye(8)),
    "det": lambda x, w, c: torch.linalg.det(x),
    "cdist": lambda x, w, c: torch.cdist(x, w),
    "cosine": lambda x, w, c: F.cosine_similarity(x, w),
    "normalize": lambda x, w, c: F.normalize(x),
    "sort": lambda x, w, c: x.sort(0).values,
    "topk": lambda x, w, c: x.topk(2).values,
}


def _attention(x: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(8, 2, batch_first=True)
    sequence = x.reshape(2, 4, 8)
    return layer(sequence, sequence, sequence)[0]


def leaves() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return x, w and c: literal numbers, all different, x well conditioned enough for svd."""
    grid = torch.arange(64.0).reshape(8, 8)
    x = (grid * 37 % 64 / 80 + 0.1).requires_grad_()
    w = (grid * 23 % 64 / 80 + 0.1).requires_grad_()
    return x, w, grid * 11 % 64 / 80 + 0.1
