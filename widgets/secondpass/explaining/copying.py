"""A tensor with a graph was met by deepcopy: what is copied, and how it is copied without one."""

from __future__ import annotations

import ast
import copy
import re
from dataclasses import dataclass
from time import perf_counter
from types import FrameType, TracebackType
from typing import Any

import torch

from secondpass.explaining import detaching, holders, report, rewriting, snippets, sources
from secondpass.explaining.contents import Search, is_a, parts
from secondpass.explaining.failure import innermost_own
from secondpass.explaining.report import CalledAt, Carrier, Explanation, Fix
from secondpass.explaining.switches import called, cut_at
from secondpass.reading.places import Place, file_label, is_own, own_frame, place_in

_MOST = 64
_BY_NAME = 4  # so many tensors are given to deepcopy by their names
_RENORMED = {"WeightNorm": "weight_norm", "SpectralNorm": "spectral_norm"}
_HARMLESS = {"shape", "dtype", "device", "ndim", "size", "dim", "numel", "detach", "item", "tolist"}
"""What is read of a tensor without its graph."""


@dataclass(frozen=True)
class _Copied:
    """What deepcopy was asked for: the frame and line, its text there, the thing itself."""

    frame: FrameType
    place: Place
    call: ast.Call | None
    name: str
    value: Any


def explain(error: BaseException) -> Explanation:
    """Explain a deepcopy that met a tensor with a graph."""
    found = innermost_own(error.__traceback__)
    place = None if found is None else found[0]
    copied = _copied(error.__traceback__)
    names = () if copied is None else _met(copied, _stopped_at(error.__traceback__))
    where = "" if copied is None else copied.frame.f_code.co_qualname
    return Explanation(
        error=report.COPIED,
        message=str(error),
        failed_at=CalledAt(0, place),
        carriers=tuple(Carrier(name, where) for name in names),
        fix=_fixes(copied, names, place),
    )


def _copied(traceback: TracebackType | None) -> _Copied | None:
    """Return what the outermost deepcopy under the innermost own line was asked for."""
    found = None
    own: tuple[FrameType, int] | None = None
    while traceback is not None:
        frame = traceback.tb_frame
        if is_own(frame.f_code.co_filename):
            own, found = (frame, traceback.tb_lineno), None
        elif own is not None and found is None and frame.f_code is copy.deepcopy.__code__:
            found = frame.f_locals.get("x")
            if found is None:
                return None
            under = own
        traceback = traceback.tb_next
    if found is None:
        return None
    frame, line = under
    place = place_in(frame.f_code, line)
    call = _call_in(sources.statement_at(place))
    name = sources.text_of(call.args[0]) if call is not None else _name_of(found, frame)
    return _Copied(frame, place, call, name, found)


def _call_in(statement: ast.stmt | None) -> ast.Call | None:
    """Return the only deepcopy of a statement, where it is written out."""
    found = [
        node
        for node in (ast.walk(statement) if statement is not None else ())
        if isinstance(node, ast.Call) and called(node) == "deepcopy" and len(node.args) == 1
    ]
    return found[0] if len(found) == 1 and not found[0].keywords else None


def _name_of(value: Any, frame: FrameType) -> str:
    found = [name for name, one in holders.objects_of(frame, type(value)) if one is value]
    return min(found, key=len) if found else ""


def _stopped_at(traceback: TracebackType | None) -> torch.Tensor | None:
    tensor = None
    while traceback is not None:
        frame = traceback.tb_frame
        if frame.f_code.co_name == "__deepcopy__" and "self" in frame.f_locals:
            inner = frame.f_locals["self"]
            tensor = inner if isinstance(inner, torch.Tensor) else tensor
        traceback = traceback.tb_next
    return tensor


def _met(copied: _Copied, first: torch.Tensor | None) -> tuple[str, ...]:
    """Return the names of the tensors with a graph, that at which it stopped first."""
    search = Search(perf_counter() + 1.0)
    found: dict[int, str] = {}
    inside = search.inside(copied.value, copied.name)
    for tensor, name, _ in inside:
        if tensor.grad_fn is not None:
            found.setdefault(id(tensor), name)
        if len(found) >= _MOST:
            break
    if id(first) not in found and first is not None:
        names = [name for name, one in holders.tensors_of(copied.frame, 1.0) if one is first]
        found = {**({id(first): min(names, key=len)} if names else {}), **found}
    return tuple(sorted(found.values(), key=lambda name: name != found.get(id(first))))


def _fixes(copied: _Copied | None, names: tuple[str, ...], place: Place | None) -> tuple[Fix, ...]:
    why = "copy before it has a graph, or detach what is kept where it is stored"
    if copied is None or not names:
        return (Fix.at("detach", place, "", why),)
    renormed = _renormed(copied)
    if renormed is not None:
        return (renormed,)
    stored = _stored(copied, names)
    if stored:
        return stored
    code = _detached_copy(copied, names)
    if code:
        why = "the copy gets the values; what is copied keeps its graph for the loss"
        return (Fix.at("detach", copied.place, code, why),)
    shown = ", ".join(names[:_BY_NAME])
    more = f" and {len(names) - _BY_NAME} more" if len(names) > _BY_NAME else ""
    why = f"copy {shown}{more} detached; what is copied keeps its graph, if a loss still needs it"
    return (Fix.at("detach", place, "", why),)


def _renormed(copied: _Copied) -> Fix | None:
    """Return the newer form of a weight norm that keeps what it computed as an attribute."""
    if not is_a(copied.value, torch.nn.Module):
        return None
    for module in torch.nn.Module.modules(copied.value):
        for hook in module._forward_pre_hooks.values():
            name = _RENORMED.get(type(hook).__name__, "")
            if not name or not type(hook).__module__.startswith("torch.nn.utils."):
                continue
            why = (
                f"torch.nn.utils.{name} keeps the weight it computed as an attribute; "
                f"torch.nn.utils.parametrizations.{name} computes it when it is asked for"
            )
            for file in _files(copied, module):
                found = _older(file, name)
                if found is not None:
                    return Fix.at("parametrize", _line(file, found[0]), found[1], why)
            return Fix.at("parametrize", copied.place, "", why)
    return None


def _older(file: str, name: str) -> tuple[int, str] | None:
    """Return line and newer form of the only import or use of an older norm in a file."""
    tree = sources.tree_of(file)
    found = []
    for node in ast.walk(tree) if tree is not None else ():
        text = ""
        if isinstance(node, ast.ImportFrom) and node.module == "torch.nn.utils":
            if [one.name for one in node.names] == [name]:
                text = sources.text_of(node)
                text = text.replace("torch.nn.utils", "torch.nn.utils.parametrizations", 1)
        elif isinstance(node, ast.Attribute) and node.attr == name:
            if sources.text_of(node.value).endswith("nn.utils"):
                statement = sources.statement_at(_line(file, node.lineno))
                if statement is not None and not hasattr(statement, "body"):
                    text = sources.text_of(statement)
                    text = text.replace(f"nn.utils.{name}(", f"nn.utils.parametrizations.{name}(")
        if text and isinstance(node, ast.stmt | ast.expr):
            found.append((node.lineno, text))
    return found[0] if len(found) == 1 else None


def _stored(copied: _Copied, names: tuple[str, ...]) -> tuple[Fix, ...]:
    """Return the storing of detached values, where no loss can need what is stored."""
    if not is_a(copied.value, torch.nn.Module):
        return ()
    fixes: list[Fix] = []
    for attribute in dict.fromkeys(snippets.last_name(name) for name in names):
        owners = [
            module
            for module in torch.nn.Module.modules(copied.value)
            if is_a(vars(module).get(attribute), torch.Tensor)
        ]
        files = [file for one in owners[:1] for file in _files(copied, one)]
        found = [(file, one) for file in files for one in sources.stores_of(file, attribute)]
        values = [one for one in found if not _is_plain(getattr(one[1], "value", None))]
        if len(values) != 1 or any(_is_needed(file, attribute) for file in files):
            return ()
        file, statement = values[0]
        code = snippets.detached_store(statement)
        if not code:
            return ()
        why = "what is only looked at later is kept without its graph; the loss uses the other"
        also = bool(fixes)
        fixes.append(Fix.at("detach", _line(file, statement.lineno), code, why, also=also))
    return tuple(fixes)


def _is_plain(value: ast.expr | None) -> bool:
    return value is None or isinstance(value, ast.Constant)


def _is_needed(file: str, attribute: str) -> bool:
    """Say whether a file reads an attribute in a way that may need its graph."""
    tree = sources.tree_of(file)
    for node in ast.walk(tree) if tree is not None else ():
        for child in ast.iter_child_nodes(node):
            is_read = isinstance(child, ast.Attribute) and isinstance(child.ctx, ast.Load)
            if is_read and getattr(child, "attr", "") == attribute:
                if not (isinstance(node, ast.Attribute) and node.attr in _HARMLESS):
                    return True
    return False


def _files(copied: _Copied, module: torch.nn.Module) -> list[str]:
    """Return the files of a module's classes, and of the functions that run."""
    found: dict[str, None] = {}
    for kind in type(module).__mro__:
        code = getattr(vars(kind).get("forward"), "__code__", None)
        if code is not None and is_own(code.co_filename):
            found[file_label(code.co_filename)] = None
    frame: FrameType | None = copied.frame
    while frame is not None:
        found[file_label(frame.f_code.co_filename)] = None
        frame = own_frame(frame.f_back)
    return list(found)


def _detached_copy(copied: _Copied, names: tuple[str, ...]) -> str:
    """Return the copying statement with a copy that has no graph."""
    call = copied.call
    if call is None:
        return ""
    plain = detaching.copied(copied.name, copied.value)
    if plain:
        new = ast.parse(plain, mode="eval").body
        return rewriting.replaced(sources.statement_at(copied.place), [(call, lambda _: new)])
    values = _values(copied, names)
    if not values:
        return ""
    memo = f"{{id(one): one.detach().clone() for {values}}}"
    given = ast.parse(memo, mode="eval").body
    change = lambda node: ast.Call(node.func, [*node.args, given], [])  # noqa: E731
    return rewriting.replaced(sources.statement_at(copied.place), [(call, change)])


def _values(copied: _Copied, names: tuple[str, ...]) -> str:
    """Return the ``for`` over all tensors with a graph: ``step in steps for one in (step.h,)``.

    Examples
    --------
    >>> _loops(["episode.steps[0].value", "episode.steps[1].value"])
    ('episode.steps', ['.value'])
    >>> _loops(["net.seen", "net.last"]) is None
    True
    """
    if len(names) >= _MOST:
        return ""
    loops = _loops(list(names))
    if loops is not None:
        outer, inner = loops
        value = copied.value
        for key in re.findall(r"\.\w+", outer.removeprefix(copied.name)):
            value = next((item for label, item in parts(value) if label == key), None)
        items = [item for _, item in parts(value)] if type(value) in (list, tuple) else []
        labels = [{label for label, _ in parts(item)} for item in items]
        if items and all(set(inner) <= one for one in labels):
            given = ", ".join(f"item{one}" for one in inner) + ("," if len(inner) == 1 else "")
            return f"item in {outer} for one in ({given}) if torch.is_tensor(one)"
    if len(names) <= _BY_NAME:
        return f"one in ({', '.join(names)}{',' if len(names) == 1 else ''})"
    return ""


def _loops(names: list[str]) -> tuple[str, list[str]] | None:
    """Return what the names are items of, and what is taken of each."""
    found = [re.fullmatch(r"([\w.]+)\[\d+\]((?:\.\w+)+)", name) for name in names]
    if None in found:
        return None
    outer = {one[1] for one in found if one is not None}
    inner = dict.fromkeys(one[2] for one in found if one is not None)
    return (outer.pop(), list(inner)) if len(outer) == 1 else None


def _line(file: str, line: int) -> Place:
    return cut_at(Place(file, line, "", ""), line, "").place
