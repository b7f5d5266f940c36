"""A tensor's value as short text: small ones whole, big ones by shape, norm and odd entries."""

from __future__ import annotations

import contextlib
import math
import weakref
from typing import Any

import torch

try:
    import numpy
except ImportError:  # torch runs without it, and so does what is here
    numpy = None  # type: ignore[assignment]

from secondpass.reading.saved import short_type, type_name
from secondpass.reading.unheard import any_mode, is_plain, plainly, unheard, version_of

SHOWN_WHOLE = 6
"""A tensor of up to this many numbers is shown whole."""

TINY = 1e-15
"""Squares of numbers so small vanish in 32 bits."""

MANY = 8_192
"""From so many numbers on numpy counts zeros faster than torch does, ten times at 130,000."""


class Value:
    """A tensor's value as it was at one moment: measured at once, written as text when asked.

    It neither tracks nor keeps the tensor.

    Examples
    --------
    >>> import torch
    >>> str(Value(torch.tensor([4.0]))), str(Value(torch.tensor([[1.0, 2.5]])))
    ('4', '[[1, 2.5]]')
    >>> str(Value(torch.tensor([3.0, 4.0, 0.0, 0.0]).repeat(2)))
    'f32[8] norm 7.071, 50 % zeros'
    """

    __slots__ = ("_dtype", "_norm", "_numbers", "_shape", "_shares")

    def __init__(self, value: torch.Tensor) -> None:
        plain = is_plain(value)
        if not plain:
            value = plainly(value)
            plain = is_plain(value)
        self._dtype = value.dtype
        self._shape: torch.Size | None = None
        self._numbers: Any = None
        self._norm: float | None = None
        self._shares: tuple[float, float, float] | None = None
        try:
            self._shape = value.shape
            if plain and not torch.is_grad_enabled() and not any_mode():
                self._measure(value)
            elif plain:
                # Under create_graph the gradients have graphs of their own.
                with torch.no_grad(), unheard():
                    self._measure(value)
        except (RuntimeError, NotImplementedError, TypeError):  # meta, fake, sparse, nested
            pass

    @classmethod
    def later(cls, value: torch.Tensor) -> Value:
        """Return the value of a small tensor, and of a big one no more than its type and shape.

        To measure every weight of a model takes a while, and they are measured when they are shown.
        """
        if not is_plain(value) or value.numel() <= SHOWN_WHOLE:
            return cls(value)
        unmeasured = object.__new__(cls)
        unmeasured._dtype, unmeasured._shape = value.dtype, value.shape
        unmeasured._numbers = unmeasured._norm = unmeasured._shares = None
        return unmeasured

    def _measure(self, value: torch.Tensor) -> None:
        size = value.numel()
        if size <= SHOWN_WHOLE:
            self._numbers = value.tolist()
            return
        if not (value.is_floating_point() or value.is_complex()):
            value = value.to(torch.float32)
        zeros = size - _count_nonzero(value, size)
        norm = _norm(value, all_zero=zeros == size)
        nan = inf = 0
        if not math.isfinite(norm):
            nan, inf = int(value.isnan().sum().item()), int(value.isinf().sum().item())
        self._norm, self._shares = norm, (zeros / size, nan / size, inf / size)

    @property
    def is_zero(self) -> bool:
        """Whether all numbers are zero, as far as they could be read."""
        if self._numbers is not None:
            return _all_zero(self._numbers)
        return self._shares is not None and self._shares[0] == 1

    def seen_as(self, view: torch.Tensor) -> Value:
        """Return the value of a tensor that has the same numbers in another order or shape."""
        if self._norm is None:
            return Value(view)
        if view.shape == self._shape:
            return self
        value = object.__new__(Value)
        value._dtype, value._shape, value._numbers = view.dtype, view.shape, None
        value._norm, value._shares = self._norm, self._shares
        return value

    def __str__(self) -> str:
        """Return the value as short text; only type and shape where it could not be read."""
        if self._numbers is not None:
            # [4.] and [[4.]] read as 4: the shape stands elsewhere.
            numbers = self._numbers
            while isinstance(numbers, list) and len(numbers) == 1:
                (numbers,) = numbers
            return _nested(self._numbers if isinstance(numbers, list) else numbers)
        shape = ("?",) if self._shape is None else tuple(self._shape)
        kind = short_type(type_name(self._dtype), shape)
        if self._norm is None or self._shares is None:
            return kind
        parts = [f"norm {number_text(self._norm)}"]
        for label, share in zip(("zeros", "NaN", "inf"), self._shares, strict=True):
            if share:
                percent = max(1, round(100 * share)) if share < 0.99 else int(100 * share)
                parts.append(f"{percent} % {label}")
        return f"{kind} {', '.join(parts)}"


def value_text(value: torch.Tensor | None) -> str:
    """Return a tensor's value as short text; see `Value`."""
    return "None" if value is None else str(Value(value))


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


class SeenGradient:
    """A leaf's ``.grad`` as it was last seen; the tensor is held weakly.

    Attributes
    ----------
    value : Value or None
        None where there was no ``.grad``.
    """

    __slots__ = ("_tensor", "_version", "value")

    def __init__(self, leaf: torch.Tensor, value: Value | None = None) -> None:
        grad = leaf.grad
        self.value = None if grad is None else value or Value(grad)
        self._tensor = None if grad is None else weakref.ref(grad)
        self._version = None if grad is None else version_of(grad)

    @property
    def text(self) -> str | None:
        """The value as text, None where there was no ``.grad``."""
        return None if self.value is None else str(self.value)

    def stands(self, leaf: torch.Tensor) -> bool:
        """Say whether the leaf's ``.grad`` is still the one seen, unchanged."""
        grad = leaf.grad
        if grad is None or self._tensor is None:
            return grad is None and self._tensor is None
        version = version_of(grad)
        return self._tensor() is grad and version is not None and version == self._version


def _norm(value: torch.Tensor, all_zero: bool) -> float:
    """Return a norm to the digits that are shown, also where squares overflow or vanish."""
    if value.dtype.itemsize < 4:
        return float(torch.linalg.vector_norm(value, dtype=torch.float32).item())
    norm = float(torch.linalg.vector_norm(value).item())
    if all_zero or TINY < norm < math.inf:
        return norm
    wide = torch.complex128 if value.is_complex() else torch.float64
    return float(torch.linalg.vector_norm(value, dtype=wide).item())


def _count_nonzero(value: torch.Tensor, size: int) -> int:
    if size >= MANY and numpy is not None:
        # Not numpy(), after which a storage could not be resized any more.
        with contextlib.suppress(BufferError, RuntimeError, TypeError):  # bfloat16, on a GPU
            return int(numpy.count_nonzero(numpy.from_dlpack(value.detach()) != 0))
    return int(torch.count_nonzero(value).item())


def _all_zero(numbers: Any) -> bool:
    return all(map(_all_zero, numbers)) if isinstance(numbers, list) else not numbers


def _nested(numbers: Any) -> str:
    if isinstance(numbers, list):
        return f"[{', '.join(map(_nested, numbers))}]"
    return number_text(numbers)
