"""Look at tensors so that nobody hears of it: no person's mode, and no method of a subclass.

A TorchDispatchMode such as FlopCounterMode hears every op of its thread, a TorchFunctionMode even
every attribute read; what secondpass looks at must not be counted among what the person's code did.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

_PLAIN = (torch.Tensor, torch.nn.Parameter)


@contextlib.contextmanager
def unheard() -> Iterator[None]:
    """Keep what is looked at inside from modes and subclasses; also a decorator."""
    without_dispatch = getattr(torch._C, "_DisableTorchDispatch", contextlib.nullcontext)
    with torch._C.DisableTorchFunction(), without_dispatch():
        yield


def is_plain(tensor: Any) -> bool:
    """Say whether no subclass's code runs when a tensor is looked at."""
    return type(tensor) in _PLAIN


def any_mode() -> bool:
    """Say whether a mode hears what this thread does."""
    try:
        return bool(torch._C._len_torch_dispatch_stack() + torch._C._len_torch_function_stack())
    except AttributeError:  # a private name that went away: then it may be so
        return True
