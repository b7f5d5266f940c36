"""Have the person's own modules carry `marks` when Python loads them, and notice torch's arrival.

Only source files of the person's own are changed, in memory: no compiled file is written for
them and none is read. This module must not import torch: a script that sets OMP_NUM_THREADS
before its ``import torch`` would find it set too late.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import importlib.abc
import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import CodeType, FunctionType, ModuleType

from secondpass.hearing import marks
from secondpass.reading.places import is_own

_get_code = SourceFileLoader.get_code


def compile_marked(source: str | bytes, filename: str) -> CodeType:
    """Compile a module's source with marks; without them, should they not fit.

    Raises
    ------
    SyntaxError, ValueError
        As Python's own ``compile``.
    """
    with contextlib.suppress(Exception):  # whatever is wrong, Python itself says it best
        tree = marks.put_marks(ast.parse(source, filename))
        return compile(tree, filename, "exec", dont_inherit=True)
    return compile(source, filename, "exec", dont_inherit=True)


def install_marks() -> None:
    """Let the names that marks call exist, and do nothing until somebody listens."""
    for name, function in marks.IDLE.items():
        builtins.__dict__.setdefault(name, function)


def mark_imports() -> Callable[[], None]:
    """Load the person's modules with marks from now on.

    Returns
    -------
    callable
        Ends it; modules loaded in between keep their marks.
    """
    install_marks()
    SourceFileLoader.get_code = _get_marked_code  # type: ignore[method-assign, assignment]

    def stop() -> None:
        if SourceFileLoader.__dict__.get("get_code") is _get_marked_code:
            del SourceFileLoader.get_code

    return stop


def when_torch_is_loaded(tell: Callable[[], None]) -> None:
    """Call a function now if torch is loaded, else as soon as it is."""
    if "torch" in sys.modules:
        tell()
    else:
        sys.meta_path.insert(0, _TorchFinder(tell))


def _get_marked_code(self: SourceFileLoader, name: str) -> CodeType | None:
    code = None
    path = self.get_filename(name)
    # A loader that compiles in its own way, as one that puts in type checks, goes on doing so.
    if is_own(path) and type(self).source_to_code is SourceFileLoader.source_to_code:
        with contextlib.suppress(Exception):  # whatever is wrong, Python itself says it best
            tree = ast.parse(self.get_data(path), path)
            code = compile(marks.put_marks(tree), path, "exec", dont_inherit=True)
    return code if code is not None else _get_code(self, name)


def _as_pythons_own(function: FunctionType, name: str) -> None:
    """Let a function look like Python's own import: a traceback leaves those frames out."""
    function.__code__ = function.__code__.replace(
        co_filename="<frozen importlib._bootstrap_external>", co_name=name
    )


_as_pythons_own(_get_marked_code, "_call_with_frames_removed")  # type: ignore[arg-type]


class _TorchFinder(importlib.abc.MetaPathFinder):
    """Finds torch as Python would, and tells when it has been loaded."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell = tell

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)  # other finders may have a say in it
        if spec is None or spec.loader is None:
            return spec
        execute, tell = spec.loader.exec_module, self._tell

        def exec_module(module: ModuleType) -> None:
            execute(module)
            tell()

        _as_pythons_own(exec_module, "exec_module")  # type: ignore[arg-type]
        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
