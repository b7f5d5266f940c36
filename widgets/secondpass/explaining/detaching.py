"""The code that cuts what a variable holds off from its graph, whatever container it is."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

import torch

from secondpass.explaining.contents import is_a, items_of

_CONTAINERS = (dict, list, tuple, deque)
_ITEMS = ("one", "part", "piece")
_MOST = 64  # items looked at of one container


def statement(name: str, value: Any) -> str:
    """Return a statement that detaches what a variable holds; ``""`` where none is known.

    Lists and dicts are changed in place: who else holds them sees it, and no function that does
    this makes a local variable of a global one.

    Examples
    --------
    >>> statement("state", (torch.ones(2), torch.ones(2)))
    'state = tuple(one.detach() for one in state)'
    >>> statement("seen", {"h": torch.ones(2), "calls": 3})
    'seen.update({key: one.detach() for key, one in seen.items() if torch.is_tensor(one)})'
    """
    if is_a(value, torch.Tensor):
        return f"{name} = {name}.detach()"
    inner, plain = _item(value, 0)
    if inner is None:
        return ""
    item = _ITEMS[0]
    if is_a(value, dict):
        only = f" if torch.is_tensor({item})" if plain else ""
        inner = f"{item}.detach()" if plain else inner
        return f"{name}.update({{key: {inner} for key, {item} in {name}.items(){only}}})"
    if is_a(value, deque):
        if inner != f"{item}.detach()":
            return ""
        return f"for _ in range(len({name})): {name}.append({name}.popleft().detach())"
    changed = _expression(value, name, 0)
    target = f"{name}[:]" if is_a(value, list) else name
    return "" if changed is None else f"{target} = {changed}"


def copied(name: str, value: Any) -> str:
    """Return an expression for a copy without a graph; ``""`` where only tensors are not all of it.

    Examples
    --------
    >>> copied("fast", {"w": torch.ones(2)})
    '{key: one.detach().clone() for key, one in fast.items()}'
    >>> copied("seen", {"h": torch.ones(2), "calls": 3})
    ''
    """
    if is_a(value, torch.Tensor):
        return f"{name}.detach().clone()"
    if not is_a(value, (dict, list, tuple)) or _item(value, 0)[1]:
        return ""
    if type(value) not in (dict, list, tuple) and not hasattr(type(value), "_fields"):
        return ""  # a class of the person's, or a dict that has an order of its own
    return (_expression(value, name, 0) or "").replace(".detach()", ".detach().clone()")


def _expression(value: Any, name: str, depth: int) -> str | None:
    """Return an expression for a value of the same shape without a graph."""
    if is_a(value, torch.Tensor):
        return f"{name}.detach()"
    inner, _ = _item(value, depth)
    if inner is None:
        return None
    item = _ITEMS[depth]
    if is_a(value, dict):
        return f"{{key: {inner} for key, {item} in {name}.items()}}"
    if type(value) is tuple:
        return f"tuple({inner} for {item} in {name})"
    if is_a(value, tuple):  # a namedtuple
        return f"type({name})(*({inner} for {item} in {name}))"
    return f"[{inner} for {item} in {name}]" if is_a(value, list) else None


def _item(value: Any, depth: int) -> tuple[str | None, bool]:
    """Return what becomes of each item of a container, and whether some hold no tensor."""
    if not is_a(value, _CONTAINERS) or depth >= len(_ITEMS):
        return None, False
    items = _first(dict.values(value) if is_a(value, dict) else items_of(value))
    name = _ITEMS[depth]
    tensors = [is_a(one, torch.Tensor) for one in items]
    if any(tensors):
        if all(tensors):
            return f"{name}.detach()", False
        if any(is_a(one, _CONTAINERS) for one in items):
            return None, True
        return f"{name}.detach() if torch.is_tensor({name}) else {name}", True
    inner = {_expression(one, name, depth + 1) for one in items}
    return (inner.pop() if len(inner) == 1 else None), False


def _first(items: Iterable[Any]) -> list[Any]:
    return [item for _, item in zip(range(_MOST), items, strict=False)]
