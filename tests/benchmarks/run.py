"""Every budget and every peer in one table, measured side by side in one run.

    python tests/benchmarks/run.py > tests/benchmarks/RESULTS.md

Peers that are not installed are left out (requirements.txt says how to get them). What takes turns
is timed in turns, and ratios are of medians: a busy machine slows both sides.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

import torch

sys.path.insert(0, str(Path(__file__).parent))

import listening as listening_benchmark
import workloads

from secondpass.picture.live import show
from secondpass.replay.recording import record

ROUNDS = 7
PEER_SECONDS = 120
"""A peer that takes longer for one picture is not waited for."""


def in_turns(*ways: Callable[[], float], rounds: int = ROUNDS) -> list[float]:
    """Return the median seconds of each way, run in turns after one round to warm up."""
    seconds: list[list[float]] = [[] for _ in ways]
    for turn in range(rounds + 1):
        for way, taken in zip(ways, seconds, strict=True):
            value = way()
            if turn:
                taken.append(value)
    return [median(taken) for taken in seconds]


def timed(work: Callable[[], object], clock: Callable[[], float] = perf_counter) -> float:
    begin = clock()
    work()
    return clock() - begin


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:,.1f} ms" if seconds < 1 else f"{seconds:,.2f} s"


# ---- what is measured


def listening_rows() -> list[tuple[str, str, str, str]]:
    rows = []
    for name, make, steps, budget in (
        ("MLP 64-128-128-10", listening_benchmark.mlp, 200, 1.3),
        ("GPT-12, d=64", listening_benchmark.gpt, 10, 1.1),
    ):
        bare, listened, anomaly = listening_benchmark.measure(make, steps)
        share = (listened - bare) / (anomaly - bare)
        beside = f"{milliseconds(bare)} bare; {anomaly / bare:.2f} × in anomaly mode"
        what = f"listening, a step of {name}"
        got = f"{listened / bare:.2f} ×, {share:.0%} of what anomaly mode adds"
        rows.append((what, got, beside, f"{budget} ×, 20 %"))
    return rows


def recording_rows() -> list[tuple[str, str, str, str]]:
    rows = []
    for width in (64, 192):
        net, forward = workloads.gpt(width)
        size = 0

        def bare(net=net, forward=forward) -> float:
            net.zero_grad()
            return timed(lambda: forward().backward(), process_time)

        def recorded(net=net, forward=forward) -> float:
            nonlocal size
            net.zero_grad()
            begin = process_time()
            with record() as recording:
                forward().backward()
            seconds = process_time() - begin
            size = size or len(json.dumps(recording.to_dict()))
            return seconds

        one, other = in_turns(bare, recorded)
        rows.append(
            (
                f"recording a pass of GPT-12, d={width}",
                f"{other / one:.2f} ×, {size / 1e6:.2f} MB for the browser",
                f"{milliseconds(one)} bare",
                "2 ×, 1 MB",
            )
        )
    return rows


def picture(forward: Callable[[], torch.Tensor]) -> float:
    """Return the seconds from a loss to the first SVG of its graph."""
    loss = forward()
    return timed(lambda: show(loss))


def gpt_rows() -> list[tuple[str, str, str, str]]:
    net, forward = workloads.gpt(64)
    names = dict(net.named_parameters())
    rows = []
    ours = in_turns(lambda: picture(forward))[0]
    for name, peer in PEERS.items():
        seconds = attempt(lambda peer=peer: peer(net, forward, names))
        if isinstance(seconds, float):
            beside = f"{milliseconds(seconds)} {name}: {seconds / ours:.1f} × as long"
        else:
            beside = f"{name}: {seconds}"
        goal = "a fifth of torchviz + dot" if name == "torchviz + dot" else "not behind"
        rows.append(("GPT-12: loss to first SVG", milliseconds(ours), beside, goal))
    return rows or [("GPT-12: loss to first SVG", milliseconds(ours), "no peer installed", "")]


def chain_rows() -> list[tuple[str, str, str, str]]:
    rows = []
    for length in (10_000, 100_000):
        _, forward = workloads.chain(length)
        ours = in_turns(lambda forward=forward: picture(forward), rounds=3)[0]
        for name in [name for name in PEERS if name in ("torchviz + dot", "agviz")]:
            what = in_own_python(name, length)
            rows.append(
                (f"a chain of {length:,} ops", milliseconds(ours), f"{name}: {what}", "1 s")
            )
    return rows


def start_rows() -> list[tuple[str, str, str, str]]:
    """Import time and memory on top of torch and ipywidgets, each in a Python of its own."""
    code = """
import os, time, torch, ipywidgets
def resident():
    pages = int(open("/proc/self/statm").read().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
begin = time.perf_counter(); before = resident()
{}
print(time.perf_counter() - begin, resident() - before)
"""
    shown = """
import secondpass as sp
x = torch.ones(3, requires_grad=True)
view = sp.show((x.exp() * x).sum())
"""

    def run(work: str) -> tuple[float, float]:
        out = subprocess.run(
            [sys.executable, "-c", code.format(work)], capture_output=True, text=True, check=True
        )
        seconds, megabytes = map(float, out.stdout.split())
        return seconds, megabytes

    imports = [run("import secondpass; secondpass.show") for _ in range(5)]
    shows = [run(shown) for _ in range(3)]
    return [
        ("import secondpass", milliseconds(min(one for one, _ in imports)), "", "200 ms"),
        (
            "memory after import and a first view",
            f"{median(one for _, one in shows):.0f} MB",
            "on top of torch and ipywidgets",
            "30 MB",
        ),
    ]


# ---- peers


def torchviz_picture(net, forward, names) -> Callable[[], float]:
    from torchviz import make_dot

    loss = forward()
    return lambda: timed(lambda: make_dot(loss, params=names).pipe(format="svg"))


def agviz_picture(net, forward, names) -> Callable[[], float]:
    import agviz

    loss = forward()
    file = Path(tempfile.mkdtemp()) / "graph"
    named = {name: (tensor, "param") for name, tensor in names.items()}
    return lambda: timed(lambda: agviz.render(loss, named, str(file), fmt="svg"))


def torchview_picture(net, forward, names) -> Callable[[], float]:
    from torchview import draw_graph

    index = torch.randint(65, (8, 65))
    data = index[:, :-1], index[:, 1:].contiguous()

    def run() -> None:
        graph = draw_graph(net, input_data=data, depth=10, expand_nested=True)
        graph.visual_graph.pipe(format="svg")

    return lambda: timed(run)


def torchlens_picture(net, forward, names) -> Callable[[], float]:
    import torchlens

    index = torch.randint(65, (8, 65))
    data = [index[:, :-1], index[:, 1:].contiguous()]
    file = Path(tempfile.mkdtemp()) / "graph"

    def run() -> None:
        trace = torchlens.trace(net, data)
        trace.draw(vis_outpath=str(file), vis_save_only=True, vis_fileformat="svg")

    return lambda: timed(run)


PEERS: dict[str, Callable[..., Callable[[], float]]] = {
    "torchviz + dot": torchviz_picture,
    "torchview": torchview_picture,
    "torchlens": torchlens_picture,
    "agviz": agviz_picture,
}


def attempt(prepare: Callable[[], Callable[[], float]]) -> float | str:
    """Return the median seconds a peer took, or what it raised."""
    try:
        return in_turns(prepare(), rounds=3)[0]
    except Exception as error:
        return type(error).__name__


def in_own_python(name: str, length: int) -> str:
    """Return how a peer fared with a long chain, in a Python that it may bring down."""
    code = f"""
import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
import run, workloads
forward = workloads.chain({length})[1]
print(run.attempt(lambda: run.PEERS[{name!r}](None, forward, {{}})))
"""
    try:
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=PEER_SECONDS
        )
    except subprocess.TimeoutExpired:
        return f"not done after {PEER_SECONDS} s"
    last = (done.stdout.strip().splitlines() or ["nothing"])[-1]
    if done.returncode < 0:
        return f"killed by signal {-done.returncode}"
    return last if not last.replace(".", "").isdigit() else milliseconds(float(last))


def leave_out_missing() -> None:
    for name in list(PEERS):
        if find_spec(name.split()[0]) is None:
            del PEERS[name]


def main() -> None:
    warnings.simplefilter("ignore")
    leave_out_missing()
    print(f"torch {torch.__version__}, Python {platform.python_version()}, {os.cpu_count()} cores,")
    print(f"load {os.getloadavg()[0]:.1f} when it began\n")
    print("| what | secondpass | beside it | at most |\n|---|---|---|---|")
    # Peers come last: torchlens wraps torch's functions, and then everything is slower.
    for rows in (listening_rows, recording_rows, start_rows, gpt_rows, chain_rows):
        torch.set_num_threads(
            1 if rows in (recording_rows, listening_rows) else os.cpu_count() or 1
        )
        for row in rows():
            print("|", " | ".join(row), "|", flush=True)


if __name__ == "__main__":
    main()
