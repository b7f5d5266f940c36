"""Whether a tensor can be the root of a graph, and if not, why and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from secondpass.reading.saved import type_name, type_text


class NoGraphError(ValueError):
    """A tensor has no graph behind it; the message says why and what to do."""


def check_roots(tensors: Sequence[Any]) -> None:
    """Raise the error that says what is wrong with a root; see `read_graph`."""
    if not tensors:
        raise TypeError("Give at least one tensor, such as the loss: show(loss)")
    for tensor in tensors:
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(
                f"{type(tensor).__name__} is not a tensor: give the tensor that backward would "
                "be called on, such as the loss."
            )
        if tensor.is_leaf:  # asking for grad_fn would look at a Node
            raise NoGraphError(_why_no_graph(tensor))


def _why_no_graph(tensor: torch.Tensor) -> str:
    what = f"This tensor ({type_text(tensor)}) has no graph: "
    if tensor.requires_grad:
        return (
            what + "it is a leaf, nothing was computed to make it. Compute something from it "
            "first, such as y = x**2, and give that."
        )
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return (
            what + f"{type_name(tensor.dtype)} has no gradient; only floating "
            "point and complex tensors do. Give the floating point result it was made for."
        )
    if tensor.is_inference():
        return what + "it was made under torch.inference_mode(). Compute it outside of that."
    if not torch.is_grad_enabled():
        return (
            what + "gradients are switched off here, by torch.no_grad() or "
            "torch.set_grad_enabled(False). Compute it where they are on."
        )
    return (
        what + "it was detached (.detach(), .data), made under torch.no_grad(), or none of the "
        "tensors it was computed from has requires_grad=True. Set x.requires_grad_() on an input "
        "before computing, or leave the detach out."
    )
