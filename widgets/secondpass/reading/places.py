"""Places: lines of a person's own code, as opposed to torch's, a library's or ours."""

from __future__ import annotations

import functools
import linecache
import os
import sys
import sysconfig
from dataclasses import dataclass
from types import CodeType, FrameType

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_LIBRARIES = tuple(
    {
        os.path.realpath(path) + os.sep
        for name in ("stdlib", "platstdlib", "purelib", "platlib")
        if (path := sysconfig.get_path(name))
    }
)


@dataclass(frozen=True)
class Place:
    """A line of the person's own code.

    Attributes
    ----------
    file : str
        As the code object names it; a notebook cell reads ``In [3]``.
    line : int
        1 for the first line.
    code : str
        The line's text without indentation; empty where the source cannot be had.
    function : str
        The qualified name of the function around it, ``<module>`` at the top.
    """

    file: str
    line: int
    code: str
    function: str

    @property
    def where(self) -> str:
        """The line for a sentence: ``line 3``; ``In [9] line 3`` in a notebook of many cells.

        Examples
        --------
        >>> Place("train.py", 3, "loss.backward()", "train").where
        'line 3'
        """
        cell = f"{self.file} " if self.file.startswith("In [") else ""
        return f"{cell}line {self.line}"

    def to_dict(self) -> dict[str, object]:
        """Return the keys ``file``, ``line``, ``code``, ``function`` of a report."""
        return {
            "file": self.file,
            "line": self.line,
            "code": self.code,
            "function": self.function,
        }


@functools.lru_cache(maxsize=4096)
def is_own(filename: str) -> bool:
    """Say whether a code object's file is the person's own, not Python's, a library's or ours.

    Examples
    --------
    >>> import torch
    >>> is_own("/home/me/train.py"), is_own(torch.__file__), is_own("<frozen importlib>")
    (True, False, False)
    """
    if filename.startswith("<"):
        return filename.startswith(("<ipython-input", "<stdin", "<string>", "<console", "<doctest"))
    path = os.path.abspath(filename)
    if path.startswith(_HERE) or f"{os.sep}site-packages{os.sep}" in path:
        return False
    # A notebook kernel and a launcher script are not the person's code either.
    return not os.path.realpath(path).startswith(_LIBRARIES)


def is_own_code(code: CodeType) -> bool:
    """Say whether a code object is the person's own; what a dataclass wrote for itself is not.

    Its ``__init__`` has the file ``<string>``, as code has that a person runs with ``exec``.
    """
    return is_own(code.co_filename) and not code.co_qualname.startswith("__create_fn__.")


def own_frame(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame of the person's own code, from ``frame`` outwards."""
    while frame is not None and not is_own_code(frame.f_code):
        frame = frame.f_back
    return frame


_filenames: dict[str, str] = {}  # label of a cell -> the file name that linecache knows


def place_in(code: CodeType, line: int) -> Place:
    """Return the place of a line of a code object."""
    return place_at(code.co_filename, line, code.co_qualname)


def place_at(filename: str, line: int, function: str) -> Place:
    """Return the place of a line, given the file name that its code object has."""
    label = file_label(filename)  # a cell that runs again has another number, but the same file
    if label != filename:
        _filenames[label] = filename
    return _place(label, filename, line, function)


@functools.lru_cache(maxsize=4096)
def _place(label: str, filename: str, line: int, function: str) -> Place:
    return Place(label, line, linecache.getline(filename, line).strip(), function)


def set_source(filename: str, text: str) -> None:
    """Make the text of code that lies in no file known to tracebacks and to places."""
    linecache.cache[filename] = len(text), None, text.splitlines(keepends=True), filename
    _place.cache_clear()


def source_lines(label: str) -> list[str]:
    """Return the lines of a file or cell, by the name that its places have; empty if not had."""
    lines = linecache.getlines(_filenames.get(label, label))
    return [line.rstrip("\n") for line in lines]


def here() -> Place | None:
    """Return the innermost line of the person's own code that is running now, if any."""
    frame = own_frame(sys._getframe(1))
    return None if frame is None else place_in(frame.f_code, frame.f_lineno)


def file_label(filename: str) -> str:
    """Return a file's name for people: ``In [3]`` for a notebook cell, else the name itself.

    A cell's own file name holds a process number and a hash: useless to read, different in
    every run.
    """
    # Only a running IPython can know its cells; asking must not import it.
    interactive = sys.modules.get("IPython.core.interactiveshell")
    if interactive is not None and interactive.InteractiveShell.initialized():
        compiler = interactive.InteractiveShell.instance().compile
        name = getattr(compiler, "format_code_name", lambda _: None)(filename)
        if name is not None:
            return str(name[1]).replace("In[", "In [")
    return filename
