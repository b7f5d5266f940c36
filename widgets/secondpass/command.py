"""The command ``python -m secondpass``: run a script exactly as Python would, and listen."""

from __future__ import annotations

import atexit
import builtins
import contextlib
import os
import runpy
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from importlib.machinery import PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, FrameType, ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from secondpass.hearing import loading

if TYPE_CHECKING:
    from secondpass.explaining.report import Explanation

USAGE = "usage: python -m secondpass [--report FILE] [--html FILE] script.py|-m module [args]"

_HELP = f"""{USAGE}

Runs the script exactly as python would. If it stops in one of autograd's errors, an explanation
follows the traceback on stderr: which tensor, made on which line, freed by which call, and what
to change.

  --report FILE  write what was found as JSON; - is stdout
  --html FILE    write it as one page, with a picture of the graph
"""

_run_as_main = runpy._run_module_as_main  # type: ignore[attr-defined]
_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep


@dataclass
class Options:
    """What was asked for on the command line."""

    report: str | None = None
    html: str | None = None
    module: bool = False
    program: list[str] = field(default_factory=list)  # script or module, and its arguments


@dataclass
class Program:
    """A program that is ready to run: a script's code, or else what runs a module.

    Attributes
    ----------
    ending : Ending
    code : CodeType or None
    names : dict
        The module ``__main__`` in which the code is to run.
    run_module : callable
        Where there is no code: has Python find and run it.
    """

    ending: Ending
    code: CodeType | None = None
    names: dict[str, Any] = field(default_factory=dict)
    run_module: Callable[[], object] = lambda: None


def prepare(arguments: list[str], first: str | None) -> Program:
    """Make everything ready for a program; the process ends as the program would have ended it.

    Parameters
    ----------
    arguments : list of str
        The command line's.
    first : str or None
        What Python had put first in ``sys.path``, and what is not there now; None where nothing.
    """
    options = read_options(arguments)
    for path in (options.report, options.html):
        if path is not None and path != "-":
            _check_writable(path)
    ending = Ending(options)
    atexit.register(ending.finish)  # the first to be registered is the last to run
    loading.mark_imports()
    loading.when_torch_is_loaded(ending.listen)
    if options.module:
        return _module(options.program, ending, first)
    return _script(options.program, ending)


def read_options(arguments: list[str]) -> Options:
    """Read the command line; ours ends where the script's begins."""
    options = Options()
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        word, equals, value = rest.pop(0).partition("=")
        if word in ("-h", "--help"):
            print(_HELP, end="")
            sys.exit(0)
        if word == "-m" or (word.startswith("-m") and not word.startswith("--")):
            options.module = True
            if word != "-m":
                rest.insert(0, word[2:] + equals + value)
            break
        if word not in ("--report", "--html"):
            _refuse(f"unknown option {word}; the options are --report, --html, -m and --help")
        if not equals:
            if not rest:
                _refuse(f"{word} needs a file name")
            value = rest.pop(0)
        if word == "--report":
            options.report = value
        else:
            options.html = value
    if not rest:
        _refuse("which script?")
    options.program = rest
    return options


def _refuse(why: str) -> NoReturn:
    print(f"secondpass: {why}\n{USAGE}", file=sys.stderr)
    sys.exit(2)


def _check_writable(path: str) -> None:
    """Say now that a file cannot be written, not after the script has run for an hour.

    What an earlier run has left there goes: a program that is killed writes nothing.
    """
    try:
        with open(path, "w", encoding="utf-8"):
            pass
    except OSError as error:
        _refuse(f"cannot write {path}: {error.strerror}")


class Ending:
    """What happens when the program has ended: explanation, notices, report."""

    def __init__(self, options: Options) -> None:
        self._report = options.report if options.report == "-" else _absolute(options.report)
        self._html = options.html if options.html == "-" else _absolute(options.html)
        self._program = os.path.basename(options.program[0])
        self._process = os.getpid()
        self._error: BaseException | None = None
        self._listens = False
        self._explained: Explanation | None = None
        self.folder: str | None = None  # of the program: see `_apart_from`

    def listen(self) -> None:
        """Begin to listen: torch has been loaded."""
        with _apart_from(self.folder):
            from secondpass.explaining import listening, wording  # noqa: F401 - needed later

        listening.start()
        if self._html is not None:
            listening.keep_pictures()
        self._listens = True
        hook = threading.excepthook

        def in_thread(args: threading.ExceptHookArgs) -> None:
            hook(args)
            if args.exc_value is not None:
                self._explain(args.exc_value)

        threading.excepthook = in_thread

    def end_in(self, error: BaseException, runner: CodeType) -> None:
        """Prepare Python's own last words for an exception that ended the program."""
        self._error = error
        shown = error.__traceback__ = trimmed(error.__traceback__, runner)
        if isinstance(error, SystemExit):
            self._explain(error)  # Python says nothing about it, and calls no hook
            return
        hook = sys.excepthook  # the program may have set its own

        def show(kind: type[BaseException], value: BaseException, traceback: object) -> None:
            value.__traceback__ = shown  # without our frames, which were put back on the way out
            sys.last_traceback = shown  # a debugger looks there
            sys.excepthook = hook
            hook(kind, value, shown)
            self._explain(value)

        sys.excepthook = show

    def _explain(self, error: BaseException) -> None:
        """Print the explanation of the error that ended the program."""
        if not self._listens or os.getpid() != self._process:
            return
        from secondpass.explaining import listening

        explanation = listening.explain_error(error)
        if explanation is None:
            return
        self._explained = explanation
        _say(f"\n{explanation}")

    def finish(self) -> None:
        """Write what was asked for; runs when everything else has ended."""
        if os.getpid() != self._process:
            return  # a child that was forked
        with _apart_from(self.folder):
            self._finish()
        if isinstance(self._error, KeyboardInterrupt):
            # Python ends by the signal if what was executed last was interrupted: not our imports.
            with contextlib.suppress(KeyboardInterrupt):
                exec("raise KeyboardInterrupt")

    def _finish(self) -> None:
        if not self._listens:
            self._write_nothing()
            return
        from secondpass.explaining import listening

        listening.stop()
        found = listening.last_words(self._error, self._explained)
        if found.notices and self._explained is None:
            _say(str(found))
        if self._html is not None:
            what = "What stopped" if self._explained else "What secondpass found in"
            _write_page(self._html, str(found), f"{what} {self._program}")
            if self._html != "-" and self._explained:
                _say(f"  With its picture: {self._html}")
        if self._report is not None:
            _write_report(self._report, found.to_dict())

    def _write_nothing(self) -> None:
        """Write what was asked for, of a program that never loaded torch; at its end, nor do we."""
        from secondpass.explaining.report import Explanation, message_of

        if self._html is not None:
            _write(self._html, "<!doctype html>\n<p>secondpass: torch was not loaded.</p>")
        if self._report is not None:
            message = message_of(self._error)
            _write_report(self._report, Explanation(message=message).to_dict())


def _say(words: str) -> None:
    """Print on stderr, unless the program has closed it."""
    with contextlib.suppress(OSError, ValueError):
        if sys.stderr is not None:
            print(words, file=sys.stderr, flush=True)


def _write_report(path: str, report: dict[str, object]) -> None:
    import json

    _write(path, json.dumps(report, indent=1) + "\n")


def _write_page(path: str, words: str, title: str) -> None:
    """Write the explanation as a page, with the picture of the graph where there is one."""
    from secondpass.explaining import listening
    from secondpass.picture.page import page, page_of_words
    from secondpass.picture.widget import AutogradGraph

    recording = listening.picture()
    if recording is None:
        _write(path, page_of_words(title, words))
    else:
        _write(path, page(AutogradGraph(recording), words, title))


def _write(path: str, text: str) -> None:
    if path == "-":
        print(text.rstrip("\n"), flush=True)
    else:
        Path(path).write_text(text, encoding="utf-8")


def _absolute(path: str | None) -> str | None:
    return None if path is None else os.path.abspath(path)


def trimmed(traceback: TracebackType | None, runner: CodeType) -> TracebackType | None:
    """Return a traceback without what lies outside the person's program, and without marks."""
    start = traceback
    while traceback is not None:
        if traceback.tb_frame.f_code is runner:
            start = traceback.tb_next
        traceback = traceback.tb_next
    kept: list[tuple[FrameType, int, int]] = []
    while start is not None:
        if not start.tb_frame.f_code.co_filename.startswith(_HERE):
            kept.append((start.tb_frame, start.tb_lasti, start.tb_lineno))
        start = start.tb_next
    for frame, last, line in reversed(kept):
        start = TracebackType(start, frame, last, line)
    return start


def _script(program: list[str], ending: Ending) -> Program:
    script = program[0]
    filename = os.path.join(os.getcwd(), script)  # as Python names it: not normalised
    if os.path.isdir(script) or _is_zip(script):
        if not os.path.isdir(script) or os.path.exists(os.path.join(script, "__main__.py")):
            _set_path(os.path.abspath(script), ending)
            sys.argv = program
            _new_main()
            return Program(ending, run_module=partial(_run_as_main, "__main__", False))
        _leave_to_python(program, ending)
    try:
        source = Path(script).read_bytes()
        code = loading.compile_marked(source, filename)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        _leave_to_python(program, ending)
    if not sys.flags.safe_path:
        _set_path(os.path.dirname(os.path.realpath(script)), ending)
    sys.argv = program
    module = _new_main()
    module.__loader__ = SourceFileLoader("__main__", filename)
    module.__dict__.update(
        __annotations__={}, __builtins__=builtins, __file__=filename, __cached__=None
    )
    return Program(ending, code, module.__dict__)


def _module(program: list[str], ending: Ending, first: str | None) -> Program:
    if first is not None:
        _set_path(first, ending)
    sys.argv = ["-m", *program[1:]]
    _new_main()
    return Program(ending, run_module=partial(_run_as_main, program[0]))


def _new_main() -> ModuleType:
    """Put an empty ``__main__`` in the place of ours: the program's own."""
    module = sys.modules["__main__"] = ModuleType("__main__")
    return module


# ---- the person's modules and Python's, where both have one name

_KEPT = ("__main__", "encodings", "secondpass", "torch")  # what each name stands for is settled


def _set_path(folder: str, ending: Ending) -> None:
    """Let imports look in the program's folder first, where Python would."""
    ending.folder = folder
    _forget_hidden(folder, set(sys.modules))
    sys.path.insert(0, folder)


@contextlib.contextmanager
def _apart_from(folder: str | None) -> Iterator[None]:
    """Import what we need as if the program's folder were not there; leave its modules as found.

    A folder may hold an ``html.py``: it is what the program means by that name, and not we.
    """
    if folder is None:
        yield
        return
    theirs = {name: one for name, one in sys.modules.items() if _lies_in(folder, name)}
    for name in theirs:
        del sys.modules[name]
    before, path = set(sys.modules), list(sys.path)
    sys.path[:] = [one for one in path if one != folder]
    try:
        yield
    finally:
        sys.path[:] = path
        _forget_hidden(folder, set(sys.modules) - before)
        sys.modules.update(theirs)


def _forget_hidden(folder: str, names: set[str]) -> None:
    """Forget the modules among some names that Python would have looked for in a folder first."""
    for name in names:
        if "." in name or name in _KEPT or _is_in_python(sys.modules[name]):
            continue
        found = PathFinder.find_spec(name, [folder])
        if found is not None and found.origin is not None:
            for inner in [one for one in sys.modules if one.partition(".")[0] == name]:
                del sys.modules[inner]


def _is_in_python(module: ModuleType) -> bool:
    """Say whether a module is part of Python itself: no file can stand in for it."""
    return getattr(getattr(module, "__spec__", None), "origin", "") in ("built-in", "frozen")


def _lies_in(folder: str, name: str) -> bool:
    """Say whether a module, or the package that it is in, lies right in a folder."""
    outer = name.partition(".")[0]
    file = getattr(sys.modules.get(outer), "__dict__", {}).get("__file__")
    if outer in _KEPT or not isinstance(file, str):
        return False
    place, base = os.path.split(file)
    return folder == (os.path.dirname(place) if base.startswith("__init__.") else place)


def _is_zip(script: str) -> bool:
    import zipfile

    return os.path.isfile(script) and not script.endswith(".py") and zipfile.is_zipfile(script)


def _leave_to_python(program: list[str], ending: Ending) -> NoReturn:
    """Have Python itself say what is wrong with a script that cannot be run."""
    ending.finish()
    atexit.unregister(ending.finish)
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    command = [sys.executable, *flags, *program]
    if os.name == "posix":
        sys.stdout.flush()
        os.execv(sys.executable, command)
    sys.exit(subprocess.call(command))
