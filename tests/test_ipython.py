"""``%load_ext secondpass`` in a shell of its own."""

import re
import subprocess
import sys
import textwrap

import pytest

SHELL = """
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config
config = Config()
config.HistoryManager.enabled = False
shell = InteractiveShell.instance(colors="NoColor", config=config)
def run(cell):
    return shell.run_cell(cell, store_history=True)
"""


def shell(code: str) -> tuple[str, str]:
    """Run code that types into a shell, in a process of its own; return stdout and stderr."""
    pytest.importorskip("IPython")
    done = subprocess.run(
        [sys.executable, "-c", SHELL + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_the_explanation_stands_below_the_traceback():
    out, err = shell(
        """
        run("%load_ext secondpass")
        run("import torch; x = torch.ones(2, requires_grad=True)\\ny = (x**2)\\ny.sum()")
        run("y.sum().backward()")
        run("z = y * 3\\n(z\\n .sum()).backward()")
        run("import secondpass as sp; print(sp.explain().family)")
        """
    )
    assert "Out[2]: tensor(2., grad_fn=<SumBackward0>)" in out
    assert "RuntimeError: Trying to backward" in out
    assert err.strip().splitlines()[0] == (
        "secondpass: call 2 stopped in Pow, made on In [2] line 2:  y = (x**2)"
    )
    assert "freed by call 1, In [3] line 1:  y.sum().backward()" in err
    assert out.rstrip().endswith("shared")


def both(code: str) -> tuple[str, str]:
    """Return what a shell prints, without and with the extension."""
    code = textwrap.dedent(code)
    return shell('run("pass")\n' + code)[0], shell('run("%load_ext secondpass")\n' + code)[0]


def test_a_traceback_reads_the_same():
    plain, listened = both(
        """
        run("import torch; x = torch.ones(2, requires_grad=True); y = (x**2).sum()")
        run("def f(y):\\n    y.backward()\\nf(y)")
        run("f(y)")
        run("1 / 0")
        """
    )
    assert listened == plain


def test_what_a_cell_shows_and_prints_is_the_same():
    plain, listened = both(
        """
        run("x = 3\\nx")
        run("x;")
        run("[i for i in range(3)]\\nx += 1\\nx")
        run("def f(a):\\n    'doc'\\n    return a\\nf(2)")
        run("import inspect; print(inspect.getsource(f))")
        run("await __import__('asyncio').sleep(0)\\n5")
        run("%%time\\n7")
        run("if x: print(x)")
        run("x = = 2")
        print(sorted(name for name in shell.user_ns if name[0] != "_"))
        """
    )
    untimed = [
        [line for line in text.splitlines() if "time" not in line.lower()]
        for text in (plain, listened)
    ]
    assert untimed[0] == untimed[1]


def test_unloading_undoes_all_of_it():
    out, err = shell(
        """
        import sys, importlib.machinery
        from torch.autograd.variable import Variable
        from torch.optim import optimizer
        engine = Variable._execution_engine
        def state():
            return (
                list(shell.ast_transformers),
                {name: list(heard) for name, heard in shell.events.callbacks.items()},
                "record" in shell.magics_manager.magics["cell"],
                Variable._execution_engine is engine,
                len(optimizer._global_optimizer_post_hooks),
                "get_code" in vars(importlib.machinery.SourceFileLoader),
                list(sys.meta_path),
            )
        before = state()
        run("%load_ext secondpass")
        assert state() != before
        run("%reload_ext secondpass")
        run("import torch\\ndef f(x): return x**2")
        run("%unload_ext secondpass")
        assert state() == before, state()
        run("x = torch.ones(1, requires_grad=True); y = f(x); y.backward(); y.backward()")
        """
    )
    assert "RuntimeError: Trying to backward" in out
    assert "secondpass" not in err


def test_record_records_a_cell_and_binds_the_recording():
    out, _ = shell(
        """
        run("%load_ext secondpass")
        run("import torch")
        run("%%record seen\\nx = torch.ones(1, requires_grad=True)\\n(x**3).backward()\\nx.grad")
        run("print([frame.kind for frame in seen.frames], seen.frames[0].line.line)")
        run("%%record not a name\\n1")
        """
    )
    assert "['forward', 'call', 'node', 'accumulate', 'return'] 3" in out


def test_a_recorded_cell_that_fails_shows_one_picture_and_its_own_first_line():
    out, _ = shell(
        """
        shell.kernel = None  # as in a notebook: what is displayed goes through display()
        from IPython.core import display_functions
        shown = []
        display_functions.publish_display_data = lambda data, *_, **__: shown.append(list(data))
        run("%load_ext secondpass")
        run("import torch; x = torch.ones(2, requires_grad=True); y = x.exp().sum()")
        run("%%record seen\\ny.backward(); y.backward()")
        print(len(shown), shown[0])
        run("y.backward()")
        print(len(shown))
        """
    )
    assert "1 # %%record seen\n" in out
    assert "\n1 ['text/plain', 'text/html']\n" in out
    assert out.endswith("\n3\n")


def test_a_recorded_cell_counts_calls_as_its_picture_does():
    _, err = shell(
        """
        run("%load_ext secondpass")
        run("import torch; x = torch.ones(2, requires_grad=True); y = x.exp().sum()")
        run("y.backward(retain_graph=True)")
        run("%%record seen\\nz = x.exp().sum()\\nz.backward()\\nz.backward()")
        run("y.backward()")
        run("%%record seen\\ny.backward()")
        """
    )
    told = [line for line in err.splitlines() if "stopped in" in line or "freed by call" in line]
    assert [re.findall(r"call (\d)", line) for line in told] == [["2"], ["1"], ["5"], ["4"]]


def test_what_was_made_before_loading_has_no_line():
    _, err = shell(
        """
        run("import torch; x = torch.ones(1, requires_grad=True); y = x**2; y.backward()")
        run("%load_ext secondpass")
        run("y.backward()")
        """
    )
    assert "before listening began" in err


def test_each_cell_is_looked_at_anew():
    _, err = shell(
        """
        run("%load_ext secondpass")
        from secondpass.explaining import listening
        listening.SHARE = 0.0
        run("import torch; x = torch.ones(2, requires_grad=True)")
        run("for _ in range(50):\\n    x.exp().sum().backward()")
        run("h = x\\nfor _ in range(2):\\n    h = h.exp()\\n    h.sum().backward()")
        """
    )
    assert "freed by call 51, In [4] line 4:  h.sum().backward()" in err
    assert "through `h`: made in an earlier round" in err
