"""What is found out about a failed call: plain data, no tensor and no Node."""

from __future__ import annotations

from dataclasses import dataclass

from secondpass.explaining import report
from secondpass.explaining.history import Heard
from secondpass.explaining.holders import Held
from secondpass.hearing.lines import Made
from secondpass.reading.places import Place

_MESSAGES = (
    ("backward through the graph a second time", report.BACKWARD_TWICE),
    ("modified by an inplace operation", report.MODIFIED),
    ("leaf Variable that requires grad", report.LEAF_MODIFIED),
    ("does not require grad and does not have a grad_fn", report.NO_GRAPH),
    ("One of the differentiated Tensors does not require grad", report.NO_GRAPH),
    ("Only Tensors created explicitly by the user", report.COPIED),
)


@dataclass(frozen=True)
class Boundary:
    """A place at which a pass went from what was made for it into what was made earlier.

    Attributes
    ----------
    made : Made or None
        Where the old Node was made.
    used : Made or None
        Where the new Node was made that took its result in.
    names : tuple of Held
        Names of the old Node's result, those first that still hold it.
    again : bool
        Whether the line that made the old Node has run again since the call that freed.
    """

    made: Made | None
    used: Made | None
    names: tuple[Held, ...] = ()
    again: bool = False


@dataclass(frozen=True)
class Behind:
    """A leaf behind the old part of a graph.

    Attributes
    ----------
    name : str
    owner : str
        The optimizer that owns it, or ``""``.
    fresh : bool
        Whether the pass reaches it through the new part too.
    """

    name: str
    owner: str
    fresh: bool = False


@dataclass(frozen=True)
class Failure:
    """What was found out about a failed call.

    Attributes
    ----------
    error, message : str
    heard : Heard
    freed_by : Heard or None
        The call that freed the saved tensors.
    maybe_freed_by : tuple of Heard
        The calls that may have, where it is not known.
    node : str
        The Node's name; empty where it was not found.
    slots : tuple of str
    made : Made or None
    path : tuple of str
        Node names, from the root to the Node.
    any_younger : bool
        Whether the pass reached a Node younger than the call that freed.
    same_root : bool
        Whether both calls began in the same result.
    made_again : bool
        Whether the line that made the Node made another one for this pass, on the same way.
    carriers : tuple of Held
        Names of what leads from the new graph into the old one, the nearest first.
    boundaries : tuple of Boundary
        Where the pass went into the old graph; the one on the path first.
    old : tuple of Made
        The lines that made the old part of the graph, the first to run first.
    only_added : bool
        Whether what was carried over is no more than a term of the sum that the loss is.
    meeting : tuple of Held
        Names that, cut off together, part the pass from what the call that freed had run.
    neck : tuple of Held
        The name of the one tensor through which it goes into all of that.
    first_learns : bool
        Whether the call that freed reached a leaf that does not lie behind what both share.
    zeroed : bool
        Whether what the call that freed had added to the leaves' ``.grad`` is gone.
    shared : tuple of (Held, tuple of str)
        Variables that hold a part of the old graph, and the optimizers of the leaves behind each.
    detaching : tuple of (str, str)
        Names of variables that could be looked at, and the statement that cuts what each holds off;
        ``""`` where there is no such statement.
    late : tuple of str
        Variables that came to hold a part of the old graph only after the call that freed it.
    updated : tuple of str
        Leaves whose ``.grad`` the failed call had changed.
    behind : tuple of Behind
        Leaves behind the old part of the graph.
    others_learn : bool
        Whether the pass reaches leaves through the new part too.
    optimizers : tuple of str
        Names of the optimizers that the running code holds.
    stepped : tuple of str
        Names of the optimizers that made a step after the call that freed.
    in_function : str
        The name of a custom Function's backward in which the error was raised.
    modified_at : Place or None
    modified_name : str
        The person's name of the tensor that was changed.
    modified_leaf : bool
        Whether it is a leaf: a parameter.
    retained : bool
        Whether an earlier call through this graph kept it.
    left_out : str
    tag : int
        The number of the Node's tag: by it, a picture finds the Node.
    """

    error: str
    message: str
    heard: Heard
    freed_by: Heard | None = None
    maybe_freed_by: tuple[Heard, ...] = ()
    node: str = ""
    slots: tuple[str, ...] = ()
    made: Made | None = None
    path: tuple[str, ...] = ()
    any_younger: bool = False
    same_root: bool = False
    made_again: bool = False
    carriers: tuple[Held, ...] = ()
    boundaries: tuple[Boundary, ...] = ()
    old: tuple[Made, ...] = ()
    only_added: bool = False
    meeting: tuple[Held, ...] = ()
    neck: tuple[Held, ...] = ()
    first_learns: bool = False
    zeroed: bool = False
    shared: tuple[tuple[Held, tuple[str, ...]], ...] = ()
    detaching: tuple[tuple[str, str], ...] = ()
    late: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    behind: tuple[Behind, ...] = ()
    others_learn: bool = False
    optimizers: tuple[str, ...] = ()
    stepped: tuple[str, ...] = ()
    in_function: str = ""
    modified_at: Place | None = None
    modified_name: str = ""
    modified_leaf: bool = False
    retained: bool = False
    left_out: str = ""
    tag: int = -1


def error_of(error: BaseException) -> str | None:
    """Return which of autograd's errors an exception is, None for any other."""
    if not isinstance(error, RuntimeError):
        return None
    message = report.message_of(error)
    return next((kind for words, kind in _MESSAGES if words in message), None)
