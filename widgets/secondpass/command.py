"""The command ``python -m secondpass``: run a script exactly as Python would, and listen."""

from __future__ import annotations

import atexit
import builtins
import os
import runpy
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, FrameType, ModuleType, TracebackType
from typing import TYPE_CHECKING, NoReturn

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


def main(arguments: list[str]) -> None:
    """Run a program under secondpass; the process ends as the program would have ended it."""
    options = read_options(arguments)
    for path in (options.report, options.html):
        if path is not None and path != "-":
            _check_writable(path)
    ending = Ending(options)
    atexit.register(ending.finish)  # the first to be registered is the last to run
    loading.mark_imports()
    loading.when_torch_is_loaded(ending.listen)
    if options.module:
        _run_module(options.program, ending)
    else:
        _run_script(options.program, ending)


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
    """Say now that a file cannot be written, not after the script has run for an hour."""
    try:
        with open(path, "a", encoding="utf-8"):
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

    def listen(self) -> None:
        """Begin to listen: torch has been loaded."""
        from secondpass.explaining import listening

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
        if sys.stderr is not None:
            print(f"\n{explanation}", file=sys.stderr, flush=True)

    def finish(self) -> None:
        """Write what was asked for; runs when everything else has ended."""
        if os.getpid() != self._process:
            return  # a child that was forked
        report: dict[str, object] | None = None
        if self._listens:
            from secondpass.explaining import listening

            listening.stop()
            found = listening.last_words(self._error, self._explained)
            report = found.to_dict()
            if found.notices and self._explained is None and sys.stderr is not None:
                print(found, file=sys.stderr, flush=True)
            if self._html is not None:
                what = "What stopped" if self._explained else "What secondpass found in"
                _write_page(self._html, str(found), f"{what} {self._program}")
                if self._html != "-" and self._explained and sys.stderr is not None:
                    print(f"  With its picture: {self._html}", file=sys.stderr, flush=True)
        self._write(report)

    def _write(self, report: dict[str, object] | None) -> None:
        if self._report is None:
            return
        import json

        text = json.dumps(report if report is not None else _nothing_to_say(self._error), indent=1)
        if self._report == "-":
            print(text, flush=True)
        else:
            Path(self._report).write_text(text + "\n", encoding="utf-8")


def _nothing_to_say(error: BaseException | None) -> dict[str, object]:
    """Return the report of a program that never loaded torch."""
    from secondpass.explaining.report import Explanation

    return Explanation(message="" if error is None else str(error)).to_dict()


def _write_page(path: str, words: str, title: str) -> None:
    """Write the explanation as a page, with the picture of the graph where there is one."""
    from secondpass.explaining import listening
    from secondpass.picture.page import page, page_of_words
    from secondpass.picture.widget import AutogradGraph

    recording = listening.picture()
    if recording is None:
        whole = page_of_words(title, words)
    else:
        whole = page(AutogradGraph(recording), words, title)
    if path == "-":
        print(whole)
    else:
        Path(path).write_text(whole, encoding="utf-8")


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


def _run_script(program: list[str], ending: Ending) -> None:
    script = program[0]
    filename = os.path.join(os.getcwd(), script)  # as Python names it: not normalised
    if os.path.isdir(script) or _is_zip(script):
        if not os.path.isdir(script) or os.path.exists(os.path.join(script, "__main__.py")):
            _set_path(os.path.abspath(script))
            sys.argv = program
            _new_main()
            _run(lambda: _run_as_main("__main__", False), ending)
            return
        _leave_to_python(program, ending)
    try:
        source = Path(script).read_bytes()
        code = loading.compile_marked(source, filename)
    except (OSError, SyntaxError, ValueError):
        _leave_to_python(program, ending)
    _set_path(os.path.dirname(os.path.realpath(script)))
    sys.argv = program
    module = _new_main()
    module.__loader__ = SourceFileLoader("__main__", filename)
    module.__dict__.update(
        __annotations__={}, __builtins__=builtins, __file__=filename, __cached__=None
    )
    _run(lambda: exec(code, module.__dict__), ending)


def _run_module(program: list[str], ending: Ending) -> None:
    sys.argv = ["-m", *program[1:]]
    _new_main()
    _run(lambda: _run_as_main(program[0]), ending)


def _run(body: Callable[[], object], ending: Ending) -> None:
    try:
        body()
    except BaseException as error:
        ending.end_in(error, _run.__code__)
        raise


def _new_main() -> ModuleType:
    """Put an empty ``__main__`` in the place of ours: the program's own."""
    module = sys.modules["__main__"] = ModuleType("__main__")
    return module


def _set_path(folder: str) -> None:
    """Let imports look in the script's folder first, where Python would."""
    if not sys.flags.safe_path:
        sys.path[0] = folder


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
