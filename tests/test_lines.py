"""Which line made a Node: compared with torch's own anomaly mode, line by line."""

import ast
import importlib.machinery
import linecache
import re
import subprocess
import sys
import threading
import types

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from secondpass.hearing import line_log, lines, loading, marks, writes

FILE = "/home/me/program.py"

PROGRAMS = {
    "multi_line_expressions": """
w = torch.ones(3, requires_grad=True)
net = nn.Linear(3, 3)
loss = net(w) ** 2
keep(loss)
y = (w
     .exp()
     .sin()
     + w.cos()
     * 2)
keep(y)
z = torch.cat([
    w * 2,
    w.exp(),
    (w
     + 1)
    .sum()
    .reshape(1),
])
keep(z)
""",
    "modules_lambdas_generators_expressions": """
class Net(nn.Module):
    '''doc'''
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, 3)
        self.b = nn.Linear(3, 3)

    def forward(self, x, s):
        h = self.a(x).relu(); g = self.b(h); h = h * s
        if (h * 2).sum() > -1e9:
            g = g + h
        return (g,
                h.exp(),
                self.b(
                    h
                    .sin()))
net = Net()
w = torch.ones(3, requires_grad=True)
a, b, c = net(w ** 2, w.exp())
keep(a); keep(b); keep(c)
total = sum(p.square().sum() for p in net.parameters())
keep(total)
gen = (p.exp().sum()
       for p in net.parameters())
keep(sum(gen))
f = lambda q: (q * 3
   ).tanh()
keep(f(w.log1p()) + f(w * 5))
keep(f(
  w.cos(),
) + 1)
""",
    "iteration_and_comprehensions": """
w = torch.ones(4, 3, requires_grad=True)
def chunks(x):
    for row in x:
        yield row * 2
    y = yield x.sum()
    keep(x * 7)
    yield x.exp()
for c in chunks(w.tanh()):
    keep(c + 1)
    keep(c.exp())
g = chunks(w)
for q in range(2):
    keep(next(g) * 3)
for row in w:
    pass
keep(row)
keep(torch.stack([r.exp() for r in w]))
keep(torch.stack([
    r.exp()
    for r in w
]))
keep(torch.stack([
    r.exp() if r.sum() > 3
    else r.sin() * 2
    for r in w.cos()
]))
d = {"a": w * 2,
     "b": w.sin(),
     "c": {
        "x": w + 1}}
keep(d["a"] + d["b"]
     + d["c"]["x"])
""",
    "exceptions_contexts_async": """
import contextlib
w = torch.ones(4, 3, requires_grad=True)
def fail(x):
    y = x.exp()
    keep(y)
    raise ValueError
try:
    keep(w * 2); z = fail(w.sin())
except ValueError:
    z = w.cos()
finally:
    q = w.tanh()
keep(z); keep(q)
@contextlib.contextmanager
def ctx(x):
    keep(x * 2)
    yield x.exp()
    keep(x * 3)
with ctx(w.sin()) as e:
    keep(e + 1)
with ctx(w.sin()) as e, \
     ctx(w.cos()) as f2:
    keep(e + f2)
k = w.sin()
async def co(x):
    y = x * 2
    keep(y)
    return y.exp()
async def main():
    r = (await co(w.sin())) + 1
    keep(r)
    r = await co(
        w.cos(
        ))
    keep(r)
import asyncio
asyncio.run(main())
""",
    "functions_writes_headers_and_the_rest": """
w = torch.ones(4, 3, requires_grad=True)
class Sq(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x
    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        return 2 * x * g
y = Sq.apply(w.sin())
keep(y)
g, = torch.autograd.grad(y.sum(), w, create_graph=True)
keep(g)
x = w.clone()
x[0] = w[1] * 2
x[1] += w[2]
keep(x)
x.mul_(w)
keep(x)
from torch.utils.checkpoint import checkpoint
def blk(h):
    return (h * 2).sin()
keep(checkpoint(blk, w.exp(), use_reentrant=True))
keep(checkpoint(blk, w.exp(), use_reentrant=False))
match (w * 2).sum().item() > 3:
    case True if (w * 3).sum() > 2:
        keep(w.sin())
if (n := w.sin()).sum() > 0 and (w
      .cos().sum() < 1e9):
    keep(n)
while (w * 2).sum() < 1: pass
keep(w + 1 if w.sum() > 0 else w.sin())
keep(torch.func.functional_call(nn.Linear(3, 3), {"weight": w[:3] * 2,
    "bias": w[0].sin()}, (w.cos(),)))
assert (w * 5).sum() > 0, "no"
t = w.sin(); u = t * t; keep(u)
a = b = w.cos()
keep(a)
s = f"{(w * 2).sum()}"
keep(nn.Sequential(nn.Linear(3, 3), nn.ReLU())(w)
     @ w.t())
del s
@(lambda f: f)
def dec(x=w.sin()):
    return x * 2
keep(dec())
keep(dec(x=w.cos()))
v = [*map(lambda r: r.exp(), w)]
keep(v[0])
v = list(map(torch.exp, w)); keep(v[0])
keep(max((w * 2, w * 3), key=lambda t: (t * 4).sum()))
keep(torch.vmap(lambda r: r.exp() * 2)(w))
""",
}


def compiled(source, marked=True):
    """Compile a program as the person's own file, its source known to tracebacks."""
    linecache.cache[FILE] = (len(source), None, source.splitlines(True), FILE)
    loading.install_marks()
    if marked:
        return loading.compile_marked(source, FILE)
    return compile(source, FILE, "exec")


def run(source, marked=True, **names):
    names = {"__name__": "program", "torch": torch, "nn": nn, "F": F, **names}
    exec(compiled(source, marked), names)
    return names


@pytest.fixture
def listening():
    lines.start()
    yield
    lines.stop()


def nodes_of(tensors):
    found, todo = set(), [one.grad_fn for one in tensors if one.grad_fn is not None]
    while todo:
        node = todo.pop()
        if node not in found and type(node).__name__ != "AccumulateGrad":
            found.add(node)
            todo += [one for one, _ in node.next_functions if one is not None]
    return sorted(found, key=lambda node: node._sequence_nr())


def line_in_anomaly_mode(node):
    """Return the innermost line of the program in the traceback that torch kept of a Node."""
    found = re.findall(rf'File "{FILE}", line (\d+)', "".join(node.metadata["traceback_"]))
    return int(found[-1])


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore")
def test_the_line_is_the_one_that_anomaly_mode_names(name, listening):
    kept = []
    with torch.autograd.set_detect_anomaly(True, check_nan=False):
        run(PROGRAMS[name], keep=kept.append)
    nodes = nodes_of(kept)
    assert len(nodes) > 10
    for node in nodes:
        place = lines.line_of(node)
        assert place is not None, node.name()
        assert (node.name(), place.line) == (node.name(), line_in_anomaly_mode(node))


@pytest.mark.filterwarnings("ignore")
def test_code_without_marks_is_traced_to_the_same_lines():
    kept = []
    with torch.autograd.set_detect_anomaly(True, check_nan=False), lines.tracing():
        run(PROGRAMS["modules_lambdas_generators_expressions"], marked=False, keep=kept.append)
    for node in nodes_of(kept):
        assert lines.line_of(node).line == line_in_anomaly_mode(node)


def test_a_tracer_that_is_there_goes_on_hearing_and_is_put_back():
    heard = []

    def trace(frame, event, arg):
        heard.append(event)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        with lines.tracing():
            (lambda: 1)()
        assert sys.gettrace() is trace
    finally:
        sys.settrace(before)
    assert "call" in heard and "line" in heard


def test_a_node_made_before_listening_has_no_line():
    x = torch.ones(2, requires_grad=True)
    y = x.exp()
    lines.start()
    try:
        run("z = y.sin()", y=y)
        assert lines.line_of(y.grad_fn) is None
    finally:
        lines.stop()


def test_a_node_made_while_nobody_listened_has_no_line(listening):
    code = "y = x.exp()"
    x = torch.ones(2, requires_grad=True)
    assert lines.line_of(run(code, x=x)["y"].grad_fn).line == 1
    lines.stop()
    unheard = run(code, x=x)["y"]
    lines.start()
    run(code, x=x)
    assert lines.line_of(unheard.grad_fn) is None


def test_a_leaf_has_no_line(listening):
    x = torch.ones(2, requires_grad=True)
    accumulate = run("y = x.exp()", x=x)["y"].grad_fn.next_functions[0][0]
    assert lines.line_of(accumulate) is None


def test_nodes_made_by_create_graph_belong_to_the_line_of_the_call(listening):
    code = "y = (x**3).sum()\n\ng, = torch.autograd.grad(y, x, create_graph=True)\n"
    names = run(code, x=torch.ones(2, requires_grad=True))
    assert lines.line_of(names["g"].grad_fn).line == 3


def test_a_thread_knows_its_own_lines(listening):
    code = "def work(n):\n    y = x.exp()\n    z = y.sin()\n    return y, z\n"
    names = run(code, x=torch.ones(2, requires_grad=True))
    found = []

    def work():
        y, z = names["work"](1)
        found.extend(lines.line_of(one.grad_fn).line for one in (y, z))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [2, 3] * 3


def test_the_log_forgets_its_middle_and_says_so():
    log = line_log.Log(0)
    for number in range(1, line_log.LONGEST_LOG + 2):
        log.add(number, 1 + number % 2)
    assert len(log.keys) <= line_log.LONGEST_LOG
    assert log.find(1) == 1
    assert log.find(line_log.LONGEST_LOG) != line_log.UNKNOWN
    assert log.find(line_log.LONGEST_LOG // 4) == line_log.UNKNOWN


def test_a_log_can_be_asked_while_its_thread_writes():
    log, going, failed = line_log.Log(0), [True], []

    def ask():
        while going:
            try:
                log.find(log.numbers[-1] - 1 if log.numbers else 0)
            except IndexError as error:
                failed.append(error)

    asking, often = threading.Thread(target=ask), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    asking.start()
    for number in range(100_000):
        log.add(number, 1 + number % 2)
    going.clear()
    asking.join()
    sys.setswitchinterval(often)
    assert not failed


def test_an_object_that_dies_while_a_line_is_looked_up_makes_nodes_of_its_own(listening):
    """Python may collect garbage wherever something is made, in the midst of us too."""
    source = """
import gc
class Dying:
    def __init__(self):
        self.itself = self
    def __del__(self):
        made.append(w.exp())

made, w = [], torch.ones(1, requires_grad=True)
before = gc.get_threshold()
for allocations in range(1, 100):
    gc.disable()
    Dying()
    gc.set_threshold(allocations)
    gc.enable()
    y = w.tan()
    z = y.sin()
gc.set_threshold(*before)
"""
    run(source)
    numbers = list(line_log.here.log.numbers)
    assert numbers == sorted(numbers)


# ---- marks change nothing else

SPEECH = '''"""A module."""
from __future__ import annotations
from math import *
import inspect, sys

class A(dict):
    """A class."""
    __slots__ = ()
    x: int = 1
    y = [i for i in range(3)]
    def m(self, q: Missing = 2, *, r=3):
        """A method."""
        return super().get(q), __class__.__name__

def counted(n):
    got = yield n
    while got:
        got = yield got * 2
    return "end"

def delegating():
    back = yield from counted(3)
    yield back

async def later(n):
    return [i async for i in source(n)], {i: i async for i in source(n)}

async def source(n):
    for i in range(n):
        yield i

def tried(x):
    try:
        return 1 / x
    except ZeroDivisionError as error:
        return str(error)
    else:
        return 2
    finally:
        out.append("finally")

def matched(x):
    match x:
        case [a, *rest] if a > 1: return ("list", a, rest)
        case {"k": v, **more}: return ("dict", v, more)
        case str() | int(): return "plain"
        case _: return None

def outer():
    z = 1
    def inner():
        nonlocal z
        z += 1
        return z
    return inner(), inner(), locals()["z"]

out = []
import asyncio
g = delegating()
out += [next(g), g.send(5), g.send(0)]
out += [asyncio.run(later(3)), tried(0), tried(2), outer()]
out += [matched([2, 3]), matched({"k": 1, "l": 2}), matched(3), matched(None)]
out += [(lambda *a, k=(n := 3): (a, k))(1), n, [*range(2), *"ab"], f"{n!r:>4}{sin(0)}"]
out += [A.__doc__, A.m.__doc__, A.m.__annotations__, A().m(), A.y, sorted(vars(A))]
out += [__doc__, inspect.getsource(A.m), counted.__code__.co_varnames, sorted(globals())]
out += [x if (x := 4) > 3 else 0, not x, -x, x < 5 < 6, x and 0 or "or"]
a, (b, *c) = 1, (2, 3, 4)
d = {"k": [0, 1]}
d["k"][0] += 5; d["k"][1] = c
del c
assert d["k"][0] == 5, "no"
with open(inspect.__file__) as f, open(inspect.__file__) as h: out.append((len(f.read()) > 0, d))
for i in ():
    pass
else:
    out.append("else")
'''


def test_a_program_says_the_same_with_marks(listening):
    plain = run(SPEECH, marked=False)["out"]
    assert repr(run(SPEECH)["out"]) == repr(plain)


def test_no_name_is_added_to_a_module():
    assert set(run("def f():\n    return dir()\n")) == set(run("def f(): return dir()", False))
    assert run("def f():\n    x = len(())\n    return dir()\ny = f()")["y"] == ["x"]


def test_a_traceback_reads_the_same_carets_too(listening):
    import traceback

    source = (
        "def f(d):\n    return d['a'] + (d\n        ['b'].real)\n\n"
        "def g(d):\n    x = [f(e) for e in [d]]\n    return x\ng({'a': 1})\n"
    )
    shown = []
    for marked in (False, True):
        try:
            run(source, marked)
        except KeyError as error:
            shown.append(traceback.format_exception(error)[2:])
    assert shown[0] == shown[1]


def test_source_that_cannot_be_parsed_fails_as_under_python():
    with pytest.raises(SyntaxError) as plain:
        compile("x = = 1", FILE, "exec")
    with pytest.raises(SyntaxError) as marked:
        loading.compile_marked("x = = 1", FILE)
    assert str(plain.value) == str(marked.value)


def test_what_a_cell_displays_stays_its_last_statement():
    tree = marks.put_marks(ast.parse("x = f(1)\nx.y(2)"), displayed=(ast.Expr,))
    assert len(tree.body) == 3 and isinstance(tree.body[-1], ast.Expr)
    assert ast.unparse(tree.body[-1]) == "(x.y(2), __secondpass_mark__())[0]"


def test_a_program_of_great_depth_is_left_as_it_is():
    """IPython takes a transformer away for good when it fails."""
    tree = ast.parse("x = f(1)\ny = " + "+".join(["1"] * 600))
    before = ast.dump(tree.body[0])
    marks.put_marks(tree)
    assert ast.dump(tree.body[0]) == before and len(tree.body) == 2


COMPILED = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, 3)
        self.register_buffer("n", torch.zeros(3))
    def forward(self, x):
        h = self.a(x)
        h += 1
        for i in range(2):
            h = torch.relu(h) * 2
        if h.shape[0] > 1:
            h = h.add_(1)
        with torch.no_grad():
            self.n[0] = 1
            self.n.add_(1)
        double = lambda q: q * 2
        return (double(h)
                + sum(t.sum() for t in [h, h]))

loss = torch.compile(Net(), backend=counter, fullgraph=True)(torch.randn(2, 3)).sum()
loss.backward()
"""


def test_a_compiled_model_has_the_same_graph(listening):
    from torch._dynamo.testing import CompileCounter

    counts = []
    for marked in (False, True):
        torch._dynamo.reset()
        counter = CompileCounter()
        run(COMPILED, marked, counter=counter)
        counts.append((counter.frame_count, counter.op_count))
    assert counts[0] == counts[1] and counts[0][0] == 1


def test_a_write_is_not_said_of_a_later_tensor_in_the_same_place_of_memory():
    for _ in range(100):
        tensor = torch.zeros(3).add_(1)
        writes.note_write(tensor, sys._getframe())
        del tensor
        assert writes.write_after(torch.zeros(3).add_(1), 0) is None


def test_a_write_to_a_private_attribute_is_heard(listening):
    source = """
class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("_Cell__state", torch.zeros(3))
        self.__memory = [torch.zeros(3)][0]
    def forward(self):
        self.__memory[0] = 1
        self.__state += 1
        return self.__memory, self.__state
memory, state = Cell()()
"""
    names = run(source)
    written = [writes.write_after(names[name], 0) for name in ("memory", "state")]
    assert [place.code for place in written] == ["self.__memory[0] = 1", "self.__state += 1"]


HOSTILE = {
    "a tensor that does not count its writes": """
with torch.inference_mode():
    x = torch.zeros(3)
    x.add_(1)
    x += 1
    x[0] = 4
    torch._foreach_add_([x], 1)
said = x.tolist()
""",
    "a module before its __init__": """
class Net(nn.Module):
    def __init__(self):
        self.count = 0
        self.count += 1
        super().__init__()
said = Net().count
""",
    "attributes that are computed": """
said = []
class Slotted:
    __slots__ = ("held",)
    def __init__(self):
        object.__setattr__(self, "held", {"a": 1})
    def __getattr__(self, name):
        return self.held[name]
    def __setattr__(self, name, value):
        self.held[name] = value
class Spied:
    a = 1
    def __getattribute__(self, name):
        said.append(name)
        return object.__getattribute__(self, name)
for one in Slotted(), Spied():
    one.a += 1
""",
    "things that do not tell what they are": """
import weakref
said = []
class Liar:
    @property
    def __class__(self):
        said.append("asked")
        raise KeyError("class")
    def itself_(self):
        return self
class Dead:
    def of_(self):
        return weakref.proxy(Dead())
Liar().itself_()
Dead().of_()
""",
    "modes and subclasses": """
from torch.overrides import TorchFunctionMode
said = []
class Mode(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        said.append(function.__name__)
        return function(*args, **(kwargs or {}))
class Own(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        said.append(f"Own.{function.__name__}")
        return super().__torch_function__(function, types, args, kwargs or {})
x, own = torch.zeros(3), torch.zeros(3).as_subclass(Own)
own.add_(1)
with Mode():
    x.add_(1)
    x[0] = 3
    own += 1
    torch._foreach_add_([x], 1)
""",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_written_into_is_not_asked_anything(name, listening):
    assert run(HOSTILE[name])["said"] == run(HOSTILE[name], marked=False)["said"]


def test_what_a_call_was_given_that_raised_is_not_written_by_the_next(listening):
    source = """
def nothing_():
    pass
x = torch.zeros(3)
x.detach()[0] = 1
try:
    torch._foreach_add_([x], "no number")
except (RuntimeError, TypeError):
    pass
nothing_()
"""
    assert writes.write_after(run(source)["x"], 0) is None


def test_a_loader_that_compiles_in_its_own_way_goes_on_doing_so(tmp_path):
    """As those that put type checks into the modules that they load."""

    class Checking(importlib.machinery.SourceFileLoader):
        def source_to_code(self, data, path, *, _optimization=-1):
            return compile("checked = True", path, "exec")

    (tmp_path / "module.py").write_text("checked = False")
    loader = Checking("module", str(tmp_path / "module.py"))
    stop = loading.mark_imports()
    try:
        module = types.ModuleType("module")
        exec(loader.get_code("module"), vars(module))
    finally:
        stop()
    assert module.checked


def test_torch_is_found_by_whoever_finds_it_otherwise():
    code = """
import importlib.machinery, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            print("asked")
sys.meta_path.insert(0, Finder())
from secondpass.hearing import loading
assert "torch" not in sys.modules
loading.when_torch_is_loaded(lambda: print("loaded"))
import torch
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["asked", "loaded"]
