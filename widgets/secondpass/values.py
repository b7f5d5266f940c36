"""A tensor's value as short text: small ones whole, big ones by shape, norm and odd entries."""

from __future__ import annotations

import math
import weakref
from dataclasses import dataclass

import torch

from secondpass.saved import short_type

SHOWN_WHOLE = 6
"""A tensor of up to this many numbers is shown whole."""


def value_text(value: torch.Tensor | None) -> str:
    """Return a tensor's value as short text; it neither tracks nor keeps the tensor.

    Examples
    --------
    >>> import torch
    >>> value_text(torch.tensor([4.0])), value_text(torch.tensor([[1.0, 2.5]])), value_text(None)
    ('4', '[[1, 2.5]]', 'None')
    >>> value_text(torch.tensor([3.0, 4.0, 0.0, 0.0]).repeat(2))
    'f32[8] norm 7.071, 50 % zeros'
    """
    if value is None:
        return "None"
    kind = short_type(str(value.dtype).removeprefix("torch."), tuple(value.shape))
    try:
        with torch.no_grad():
            return _small(value) if value.numel() <= SHOWN_WHOLE else f"{kind} {_summary(value)}"
    except (RuntimeError, NotImplementedError, TypeError):  # meta, fake, sparse, subclasses
        return kind


def number_text(number: complex) -> str:
    """Return a number with at most four significant digits.

    Examples
    --------
    >>> number_text(4.0), number_text(0.123456), number_text(1e9), number_text(float("nan"))
    ('4', '0.1235', '1e+09', 'nan')
    """
    if isinstance(number, complex):
        return f"{number:.4g}"
    if isinstance(number, bool) or isinstance(number, int):
        return str(number)
    return f"{number:.4g}" if math.isfinite(number) else str(number)


@dataclass(frozen=True)
class SeenGradient:
    """A leaf's ``.grad`` as it was last seen; the tensor is held weakly.

    Attributes
    ----------
    text : str or None
        Its value; None where there was no ``.grad``.
    """

    text: str | None = None
    _tensor: weakref.ref[torch.Tensor] | None = None
    _version: int = 0

    @classmethod
    def of(cls, leaf: torch.Tensor) -> SeenGradient:
        """See the ``.grad`` of a leaf as it is now."""
        grad = leaf.grad
        if grad is None:
            return cls()
        return cls(value_text(grad), weakref.ref(grad), grad._version)

    def stands(self, leaf: torch.Tensor) -> bool:
        """Say whether the leaf's ``.grad`` is still the one seen, unchanged."""
        grad = leaf.grad
        if grad is None or self._tensor is None:
            return grad is None and self._tensor is None
        return self._tensor() is grad and self._version == grad._version


def _small(value: torch.Tensor) -> str:
    if value.numel() == 1:  # [4.] and [[4.]] read as 4: the shape stands elsewhere
        return number_text(value.detach().item())
    return _nested(value.detach().tolist())


def _nested(numbers: object) -> str:
    if isinstance(numbers, list):
        return f"[{', '.join(map(_nested, numbers))}]"
    return number_text(numbers)  # type: ignore[arg-type]


def _summary(value: torch.Tensor) -> str:
    flat = value.detach()
    number = flat if flat.is_floating_point() or flat.is_complex() else flat.to(torch.float32)
    parts = [f"norm {number_text(torch.linalg.vector_norm(number).item())}"]
    for label, count in (
        ("zeros", (flat == 0).sum()),
        ("NaN", number.isnan().sum()),
        ("inf", number.isinf().sum()),
    ):
        share = count.item() / flat.numel()
        if share:
            parts.append(f"{max(1, round(100 * share))} % {label}")
    return ", ".join(parts)
