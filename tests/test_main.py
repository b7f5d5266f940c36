"""``python -m secondpass``: a program runs as under python, and only its errors are explained."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CASES = Path(__file__).parent / "cases"
BROKEN = CASES / "broken" / "01_rnn_hidden_carry.py"

# Each program is run under python and under secondpass, and must say and do the same.
PROGRAMS = {
    "globals": """
        import sys
        print(list(globals()), __doc__, __file__, sys.argv, sys.path[:2], __name__, __spec__)
        print(type(__builtins__), __cached__, sys._getframe().f_code.co_filename)
    """,
    "uncaught": """
        def a(n):
            try:
                b(n)
            except KeyError as error:
                raise ValueError("x") from error
        def b(n): c = {}; return c[n] + (1
            / n)
        a(3)
    """,
    "exit_with_words": 'import sys; print("out"); sys.exit("bye")',
    "exit_with_a_number": "raise SystemExit(3)",
    "hard_exit": 'import os; print("out", flush=True); os._exit(7)',
    "syntax_error": "x = = 1",
    "interrupted": """
        import os, signal
        os.kill(os.getpid(), signal.SIGINT)
        for i in range(10**7): i += 1
    """,
    "own_hook": """
        import sys
        def hook(kind, value, traceback):
            n = 0
            while traceback: n += 1; traceback = traceback.tb_next
            print("hook", kind.__name__, value, n)
        sys.excepthook = hook
        def f(): 1 / 0
        f()
    """,
    "bad_module": "import bad_module",
    "module_thread_atexit": """
        import atexit, threading
        import pack.inner as inner
        atexit.register(print, "atexit")
        def work(): raise RuntimeError("in a thread")
        thread = threading.Thread(target=work); thread.start(); thread.join()
        print(inner.__file__, inner.__cached__, type(inner.__loader__), inner.__spec__.name)
        inner.boom()
    """,
    "pickle_and_spawn": """
        import multiprocessing, pickle
        class Point:
            def __init__(self, v): self.v = v
        def work(x): return x * 2
        if __name__ == "__main__":
            print(type(pickle.loads(pickle.dumps(Point(3)))), Point.__module__)
            for how in ("spawn", "fork"):
                with multiprocessing.get_context(how).Pool(1) as pool:
                    print(pool.map(work, [1, 2, 3]))
    """,
    "torch_errors": """
        import torch, warnings
        x = torch.ones(3, requires_grad=True)
        try:
            y = (x ** 2).sum(); y.backward(); y.backward()
        except RuntimeError as error:
            print("caught", str(error)[:20])
        warnings.warn("careful")
        torch.ones(2, 3) @ torch.ones(2, 3)
    """,
    "hook_that_raises": """
        import torch
        x = torch.ones(3, requires_grad=True)
        y = x * 2
        def hook(grad): raise ValueError("hooked")
        y.register_hook(hook)
        def run():
            (y
             .sum()
             .backward())
        run()
    """,
    "data_workers": """
        import torch
        from torch.utils.data import DataLoader, Dataset
        class Set(Dataset):
            def __len__(self): return 4
            def __getitem__(self, i): return torch.ones(2) * i
        net = torch.nn.Linear(2, 1)
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        for batch in DataLoader(Set(), batch_size=2, num_workers=1):
            opt.zero_grad()
            net(batch).mean().backward()
            opt.step()
        print("done")
    """,
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    (tmp_path / "bad_module.py").write_text("def x(:\n")
    pack = tmp_path / "pack"
    pack.mkdir()
    (pack / "__init__.py").write_text("")
    (pack / "inner.py").write_text(
        "def boom():\n    d = {'a': 1}\n    return [d[k]\n            for k in ('a', 'b')]\n"
    )
    (pack / "__main__.py").write_text(
        "from . import inner\nimport sys\n"
        "print(__name__, __package__, sys.argv, sys.path[0], __spec__.name)\ninner.boom()\n"
    )
    return tmp_path


def python(*arguments):
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=120,
    )


def same(*arguments):
    plain, ours = python(*arguments), python("-m", "secondpass", *arguments)
    assert ours.stdout == plain.stdout
    assert ours.stderr == plain.stderr
    assert ours.returncode == plain.returncode
    return plain


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_runs_as_under_python(name, folder):
    import textwrap

    (folder / "program.py").write_text(textwrap.dedent(PROGRAMS[name]))
    same("program.py", "one", "-m", "--two=3")


@pytest.mark.parametrize(
    "source",
    ["def load():\n    raise OSError('no such lib')\nload()\n", "import absent\n", "x = = 1\n"],
)
def test_a_torch_that_cannot_be_imported_fails_as_under_python(source, folder):
    (folder / "torch").mkdir()
    (folder / "torch" / "__init__.py").write_text(source)
    (folder / "program.py").write_text("print('begins')\nimport torch\n")
    assert same("program.py").returncode == 1


NAMES_OF_PYTHONS = ("ast", "colorsys", "html", "inspect", "random", "tokenize")


def test_a_file_named_like_a_module_that_only_we_need_is_the_programs(folder):
    for name in NAMES_OF_PYTHONS:
        (folder / f"{name}.py").write_text("mine = True\n")
    (folder / "program.py").write_text(
        f"import sys, {', '.join(NAMES_OF_PYTHONS)}\n"
        f"print([sys.modules[name].mine for name in {NAMES_OF_PYTHONS}])\n"
    )
    (folder / "sub").mkdir()
    (folder / "sub" / "program.py").write_text("import ast, inspect; print(ast.parse)\n")
    assert same("program.py").stdout == f"{[True] * len(NAMES_OF_PYTHONS)}\n"
    plain, ours = python("sub/program.py"), python("-m", "secondpass", "sub/program.py")
    assert (plain.returncode, ours.returncode, ours.stderr) == (0, 0, "")


def test_such_a_file_is_not_what_the_explanation_and_its_page_need(folder):
    pytest.importorskip("anywidget")
    for name in ("html", "mimetypes", "sysconfig", "traitlets"):
        (folder / f"{name}.py").write_text(f"print('{name} is mine')\n")
    (folder / "program.py").write_text(
        "import html, torch\nx = torch.ones(1, requires_grad=True)\ny = x**2\n"
        "y.backward()\ny.backward()\n"
    )
    done = python("-m", "secondpass", "--html", "page.html", "program.py")
    assert done.stdout == "html is mine\n"
    assert "secondpass: call 2 stopped in Pow, made on line 3" in done.stderr
    page = (folder / "page.html").read_text()
    assert "<svg" in page or "image/svg+xml" in page


@pytest.mark.parametrize("what", [["program.py"], ["-m", "program"], ["folder"]])
def test_a_program_finds_three_frames_more_around_itself(what, folder):
    for place in (folder / "program.py", folder / "folder" / "__main__.py"):
        place.parent.mkdir(exist_ok=True)
        place.write_text("import inspect; print(len(inspect.stack()))\n")
    plain, ours = python(*what), python("-m", "secondpass", *what)
    assert int(ours.stdout) - int(plain.stdout) == 3


def test_an_interrupted_program_ends_by_the_signal_whatever_is_written(folder):
    (folder / "program.py").write_text(
        "import os, signal, torch\nos.kill(os.getpid(), signal.SIGINT)\nwhile True: pass\n"
    )
    plain = python("program.py")
    done = python("-m", "secondpass", "--report", "r.json", "--html", "p.html", "program.py")
    assert done.returncode == plain.returncode
    assert json.loads((folder / "r.json").read_text())["error"] is None


def test_of_a_program_without_torch_report_and_page_say_so(folder):
    (folder / "program.py").write_text("import json; 1 / 0\n")
    (folder / "r.json").write_text("from an earlier run")
    (folder / "p.html").write_text("from an earlier run")
    done = python("-m", "secondpass", "--report", "r.json", "--html", "p.html", "program.py")
    assert done.stderr.endswith("ZeroDivisionError: division by zero\n")
    assert json.loads((folder / "r.json").read_text())["message"] == "division by zero"
    assert "torch was not loaded" in (folder / "p.html").read_text()


def test_a_killed_program_leaves_no_report_of_an_earlier_run(folder):
    (folder / "program.py").write_text("import os; os._exit(7)\n")
    (folder / "r.json").write_text("from an earlier run")
    assert python("-m", "secondpass", "--report", "r.json", "program.py").returncode == 7
    assert (folder / "r.json").read_text() == ""


def test_a_program_too_deep_to_compile_fails_in_pythons_own_words(folder):
    (folder / "program.py").write_text(f"x = 1\ny = {' + '.join(['x'] * 9000)}\n")
    plain, ours = python("program.py"), python("-m", "secondpass", "program.py")
    assert (ours.returncode, ours.stderr) == (plain.returncode, plain.stderr)


def test_a_program_that_closes_stderr_gets_its_report(folder):
    (folder / "program.py").write_text(
        "import sys, torch\nx = torch.ones(1, requires_grad=True)\ny = x**2\n"
        "sys.stderr.close()\ny.backward()\ny.backward()\n"
    )
    python("-m", "secondpass", "--report", "r.json", "program.py")
    assert json.loads((folder / "r.json").read_text())["family"] == "same-root"


@pytest.mark.parametrize("arguments", [["-m", "pack", "a"], ["pack", "a"], ["-m", "pack.inner"]])
def test_modules_and_folders_run_as_under_python(arguments, folder):
    same(*arguments)


@pytest.mark.parametrize("what", ["missing.py", "empty", "latin.py", "-m nothing_here"])
def test_what_cannot_be_run_is_refused_in_pythons_own_words(what, folder):
    (folder / "empty").mkdir()
    (folder / "latin.py").write_bytes(b'x = "\xe9"\n')
    assert same(*what.split()).returncode != 0


def test_the_explanation_follows_the_traceback_on_stderr(tmp_path):
    plain = python(BROKEN)
    ours = python("-m", "secondpass", "--report", tmp_path / "report.json", BROKEN)
    assert ours.returncode == plain.returncode == 1
    assert ours.stdout == plain.stdout
    assert ours.stderr.startswith(plain.stderr)
    words = ours.stderr.removeprefix(plain.stderr).strip().splitlines()
    assert words[0].startswith("secondpass: call 2 stopped in MkldnnRnnLayer, made on line 19:")
    assert len(words) <= 12
    report = json.loads((tmp_path / "report.json").read_text())
    assert set(report) == {
        "error", "message", "family", "node", "freed_by", "failed_at", "modified_at", "cut_at",
        "carriers", "path", "updated_leaves", "fix", "notices",
    }  # fmt: skip
    assert report["freed_by"]["call"] == 1 and report["failed_at"]["call"] == 2
    assert report["failed_at"]["file"] == str(BROKEN)
    assert report["updated_leaves"] == ["model.out.bias.grad", "model.out.weight.grad"]


def test_the_report_can_go_to_stdout():
    done = python("-m", "secondpass", "--report=-", BROKEN)
    assert json.loads(done.stdout)["family"] == "carried"


def test_the_error_is_found_behind_a_wrapping_one_and_behind_an_exit(tmp_path):
    script = tmp_path / "script.py"
    start = "import sys, torch\nx = torch.ones(1, requires_grad=True)\ny = x**2\ny.backward()\n"
    for end in ("raise ValueError('broken') from error", "sys.exit(1)"):
        script.write_text(f"{start}try: y.backward()\nexcept RuntimeError as error: {end}\n")
        done = python("-m", "secondpass", script)
        assert done.returncode == 1
        assert "secondpass: call 2 stopped in Pow, made on line 3" in done.stderr


def test_a_caught_error_is_not_spoken_of(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import torch\nx = torch.ones(1, requires_grad=True)\ny = x**2\ny.backward()\n"
        "try: y.backward()\nexcept RuntimeError: print('caught')\n"
    )
    done = python("-m", "secondpass", "--report", tmp_path / "report.json", script)
    assert (done.returncode, done.stdout, done.stderr) == (0, "caught\n", "")
    assert json.loads((tmp_path / "report.json").read_text())["error"] is None


def test_an_error_in_a_thread_is_explained(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import threading, torch\n"
        "def work():\n    x = torch.ones(1, requires_grad=True)\n    y = x.exp()\n"
        "    y.backward()\n    y.backward()\n"
        "thread = threading.Thread(target=work)\nthread.start()\nthread.join()\n"
    )
    done = python("-m", "secondpass", "--report", tmp_path / "report.json", script)
    assert done.returncode == 0
    assert "Exception in thread" in done.stderr
    assert "secondpass: call 2 stopped in Exp, made on line 4" in done.stderr
    assert json.loads((tmp_path / "report.json").read_text())["family"] == "same-root"


def test_a_notice_is_told_at_the_end():
    done = python("-m", "secondpass", CASES / "broken" / "58_gradients_never_cleared.py")
    assert done.returncode == 0
    assert "line 20" in done.stderr and "grad-accumulated" in done.stderr


def test_a_page_holds_words_and_picture(tmp_path):
    pytest.importorskip("anywidget")
    page = tmp_path / "page.html"
    python("-m", "secondpass", "--html", page, BROKEN)
    text = page.read_text()
    assert "Call 2 stopped in MkldnnRnnLayer" in text
    assert "<svg" in text or "image/svg+xml" in text


def test_what_is_wrong_on_the_command_line_is_said(tmp_path):
    for arguments, words in (
        ([], "which script?"),
        (["--reprot", "x"], "unknown option --reprot"),
        (["--report"], "--report needs a file name"),
        (["--report", tmp_path / "no" / "r.json", BROKEN], "cannot write"),
        (["--report", tmp_path, BROKEN], "cannot write"),
    ):
        done = python("-m", "secondpass", *arguments)
        assert done.returncode == 2
        assert words in done.stderr and "Traceback" not in done.stderr
    assert python("-m", "secondpass", "--help").stdout.startswith("usage:")


def test_no_compiled_file_is_written_for_marked_code(folder, monkeypatch):
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE")
    (folder / "program.py").write_text("import pack.inner\n")
    python("-m", "secondpass", "program.py")
    assert not list(folder.rglob("*.pyc"))


def test_torch_is_loaded_by_the_script_not_before(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import sys; print('torch' in sys.modules)")
    assert python("-m", "secondpass", script).stdout == "False\n"


@pytest.mark.skipif(shutil.which("torchrun") is None and os.name != "posix", reason="needs gloo")
def test_two_processes_that_share_their_gradients(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import os, torch, torch.distributed as dist, torch.multiprocessing as mp\n"
        "from torch.nn.parallel import DistributedDataParallel\n"
        "def work(rank, port):\n"
        "    os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT=str(port))\n"
        "    dist.init_process_group('gloo', rank=rank, world_size=2)\n"
        "    net = DistributedDataParallel(torch.nn.Linear(2, 1))\n"
        "    opt = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "    for _ in range(3):\n"
        "        opt.zero_grad(); net(torch.ones(2, 2)).mean().backward(); opt.step()\n"
        "    dist.destroy_process_group()\n"
        "if __name__ == '__main__':\n"
        "    import socket\n"
        "    with socket.socket() as s: s.bind(('127.0.0.1', 0)); port = s.getsockname()[1]\n"
        "    mp.start_processes(work, (port,), nprocs=2, start_method='fork')\n"
        "    print('done')\n"
    )
    done = python("-m", "secondpass", script)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
