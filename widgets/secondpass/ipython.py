"""``%load_ext secondpass``: cells run from then on are listened to, and their errors explained.

``%%record`` records one cell. ``%unload_ext secondpass`` undoes all of it.
"""

from __future__ import annotations

import ast
import contextlib
import html
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

from secondpass.explaining import listening
from secondpass.explaining.report import Explanation
from secondpass.hearing import line_log, loading, marks
from secondpass.replay.recording import Recording, record

_CHANGE = re.compile(r"  (Change|And|Or)\b")

_undo: list[Callable[[], None]] = []


def load_ipython_extension(shell: Any) -> None:
    """Begin to listen to the cells of a shell, and to the person's modules that they import."""
    if _undo:
        return
    listening.start()
    listening.keep_pictures()
    transformer = _MarkCells(shell)
    watcher = _Watcher(shell)
    shell.ast_transformers.append(transformer)
    shell.events.register("pre_run_cell", watcher.before)
    shell.events.register("post_run_cell", watcher.after)
    shell.register_magic_function(_Record(shell, watcher), "cell", "record")
    _undo.extend(
        (
            listening.stop,
            loading.mark_imports(),
            lambda: _leave_out(shell.ast_transformers, transformer),
            lambda: shell.events.unregister("pre_run_cell", watcher.before),
            lambda: shell.events.unregister("post_run_cell", watcher.after),
            lambda: shell.magics_manager.magics["cell"].pop("record", None),
        )
    )


def unload_ipython_extension(shell: Any) -> None:
    """Undo what `load_ipython_extension` did."""
    while _undo:
        _undo.pop()()


class _MarkCells:
    """Puts marks into a cell's syntax tree; IPython calls it for each cell."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell

    def visit(self, tree: ast.AST) -> ast.AST:
        """Mark a cell; the value of its last line is displayed as ever."""
        if not isinstance(tree, ast.Module):
            return tree  # %timeit and others hand in parts of their own
        displayed: tuple[type[ast.stmt], ...] = (ast.Expr,)
        if self._shell.ast_node_interactivity in ("last", "last_expr_or_assign"):
            displayed = (ast.stmt,)
        return marks.put_marks(tree, displayed=displayed)


class _Watcher:
    """Hears cells begin and end."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self.recording: Recording | None = None  # of the cell that runs, which is shown anyway

    def before(self, info: Any = None) -> None:
        """Hear that a cell is about to run: what was made since the last one was not heard."""
        line_log.forget_gap()
        listening.new_run()

    def after(self, result: Any) -> None:
        """Hear that a cell has run, and explain its error below the traceback."""
        line_log.forget_gap()
        error = getattr(result, "error_in_exec", None)
        explanation = listening.explain_error(error) if error is not None else None
        if explanation is not None and self.recording is not None:
            # It counts calls as its picture does; but it knows only those of its own cell.
            own = self.recording.explain()
            explanation = own if own.freed_by or not explanation.freed_by else explanation
        if explanation is not None:
            self._show(explanation)

    def _show(self, explanation: Explanation) -> None:
        if not hasattr(self._shell, "kernel"):
            print(f"\n{explanation}", file=sys.stderr)
            return
        from IPython.display import display

        view = _view() if self.recording is None else None
        for one in [_Shown(explanation), *([] if view is None else [view])]:
            display(one)  # type: ignore[no-untyped-call]


_BLOCK = (
    "margin: 8px 0; padding: 8px 12px; border-left: 4px solid #d92d20; "
    "white-space: pre-wrap; word-break: normal; overflow-wrap: anywhere"
)
_LINE = "display: block; padding-left: {0}ch; text-indent: -{0}ch"


class _Shown:
    """An explanation as a notebook shows it: monospaced text, the key line and the change bold."""

    def __init__(self, explanation: Explanation) -> None:
        self._text = str(explanation)

    def __repr__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        lines = self._text.splitlines()
        shown = [_line(line, is_key=place == 0) for place, line in enumerate(lines)]
        return f'<pre style="{_BLOCK}">{"".join(shown)}</pre>'


def _line(line: str, is_key: bool) -> str:
    """Return a line that goes on under its own beginning where it is too long."""
    indent = len(line) - len(line.lstrip()) + 2
    text = html.escape(line)
    change = _CHANGE.match(line)
    if is_key:
        text = f"<b>{text}</b>"
    elif change is not None:
        head = html.escape(change[0])
        text = f"<b>{head}</b>{html.escape(line[change.end() :])}"
    return f'<span style="{_LINE.format(indent)}">{text}</span>'


def _view() -> Any:
    """Return the picture of the graph in which the last call stopped, where there is one."""
    recording = listening.picture()
    if recording is None:
        return None
    from secondpass.picture.widget import AutogradGraph

    return AutogradGraph(recording)


class _Record:
    """The cell magic ``%%record [name]``: run the cell, show the recording of it."""

    def __init__(self, shell: Any, watcher: _Watcher) -> None:
        self._shell, self._watcher = shell, watcher
        self.__name__ = "record"
        self.__doc__ = "Record this cell; with a name, the recording is bound to it."

    def __call__(self, line: str, cell: str) -> Recording | None:
        name = line.strip()
        if name and not name.isidentifier():
            print(f"%%record takes a variable's name, not {name!r}", file=sys.stderr)
            return None
        with record() as recording, self._same_cell(recording):
            # The first line of the cell is the magic's own: lines keep their numbers.
            self._shell.run_cell(f"# %%record {name}".rstrip() + f"\n{cell}")
        if name:
            self._shell.user_ns[name] = recording
        return recording

    @contextlib.contextmanager
    def _same_cell(self, recording: Recording) -> Iterator[None]:
        """Have what runs inside carry the number of this cell, not the next, and one picture."""
        compiler, number = self._shell.compile, self._shell.displayhook.prompt_count
        cache = compiler.cache
        compiler.cache = lambda code, _=0, raw_code=None: cache(code, number, raw_code)
        self._watcher.recording = recording
        try:
            yield
        finally:
            self._watcher.recording = None
            del compiler.cache


def _leave_out(things: list[Any], thing: Any) -> None:
    things[:] = [one for one in things if one is not thing]
