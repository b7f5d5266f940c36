"""Look at tensors so that nobody hears of it: no person's mode, and no method of a subclass.

A TorchDispatchMode such as FlopCounterMode hears every op of its thread, a TorchFunctionMode even
every attribute read; what secondpass looks at must not be counted among what the person's code did.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any, TypeGuard, TypeVar

import torch

_Function = TypeVar("_Function", bound=Callable[..., Any])
_PLAIN = (torch.Tensor, torch.nn.Parameter)


def _perhaps_one() -> int:
    """Stand for a private name that went away: a mode may be there."""
    return 1


_dispatch_modes = getattr(torch._C, "_len_torch_dispatch_stack", _perhaps_one)
_function_modes = getattr(torch._C, "_len_torch_function_stack", _perhaps_one)


@contextlib.contextmanager
def unheard() -> Iterator[None]:
    """Keep what is looked at inside from modes and subclasses; also a decorator."""
    without_dispatch = getattr(torch._C, "_DisableTorchDispatch", contextlib.nullcontext)
    with torch._C.DisableTorchFunction(), without_dispatch():
        yield


def uncompiled(function: _Function) -> _Function:
    """Have torch.compile leave a function of ours alone, and all that it calls.

    What cannot be compiled whole runs in parts; what runs in between, such as a backward call and
    the hooks in it, is looked at too and would be compiled, ours like the person's.
    """
    leave_alone(function.__code__, what_it_calls=True)
    return function


def leave_alone(code: CodeType, *, what_it_calls: bool) -> None:
    """Have torch.compile not compile a code object; see `uncompiled`."""
    with contextlib.suppress(AttributeError, ImportError, TypeError):  # the names are private
        from torch._C._dynamo import eval_frame

        skip, default = eval_frame._FrameAction.SKIP, eval_frame._FrameAction.DEFAULT
        calls = skip if what_it_calls else default
        eval_frame.set_code_exec_strategy(code, eval_frame._FrameExecStrategy(skip, calls))


def is_plain(tensor: Any) -> bool:
    """Say whether no subclass's code runs when a tensor is looked at."""
    return type(tensor) in _PLAIN


def plainly(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor without what its subclass may have written anew, such as ``shape``.

    A subclass that handles every op has its data in its own way, and stays what it is.
    """
    if is_plain(tensor) or type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        return tensor
    with torch.no_grad(), unheard():
        return torch.Tensor.as_subclass(tensor, torch.Tensor)


def is_tensor(thing: Any) -> TypeGuard[torch.Tensor]:
    """Say whether a thing is a tensor, by its type alone.

    ``isinstance`` asks the thing for its ``__class__``, which runs a person's code: a weak proxy
    whose object has died raises.
    """
    return issubclass(type(thing), torch.Tensor)


def is_module(thing: Any) -> TypeGuard[torch.nn.Module]:
    """Say whether a thing is a module, by its type alone; see `is_tensor`."""
    return issubclass(type(thing), torch.nn.Module)


def own_attributes(thing: Any) -> dict[str, Any]:
    """Return what an object holds itself; no ``__getattr__`` of the person's runs."""
    try:
        own = object.__getattribute__(thing, "__dict__")
    except Exception:  # it has slots; or a property of that name, which may raise anything
        return {}
    return own if issubclass(type(own), dict) else {}


def version_of(tensor: torch.Tensor) -> int | None:
    """Return how often a tensor was written to; one made under inference_mode does not count."""
    try:
        return tensor._version
    except RuntimeError:
        return None


def any_mode() -> bool:
    """Say whether a mode hears what this thread does."""
    return _dispatch_modes() > 0 or _function_modes() > 0
