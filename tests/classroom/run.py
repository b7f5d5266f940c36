"""A class on this machine: JupyterHub, and N students who run one notebook at the same time.

    python tests/classroom/run.py 1 4 8                        # classes of 1, 4 and 8
    python tests/classroom/run.py 4 --notebook 01_run_backward_twice

Each student logs in with the password, gets a server, opens nbgitpuller's link, which brings the
last commit of this repository, starts a kernel and runs every cell. All of them do each of these
at once. Their outputs are compared with the stored ones: the package that is installed must be
that commit's. Then, with everything still up, memory and processor time are read.
requirements.txt says what to install. Only this machine is asked for anything.
"""

from __future__ import annotations

import argparse
import os
import platform
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psutil
import requests
from student import Student

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))

from regenerate import ROOT, clean, keep_masked  # noqa: E402

START_SECONDS = 60
MOST = 32  # students: what a try on one machine may ask of it
MB = 1024**2


@dataclass
class Hub:
    """A running JupyterHub and the password that lets everybody in."""

    url: str
    password: str
    process: psutil.Process

    def servers(self) -> list[psutil.Process]:
        """Return the students' servers; the hub's other children are its proxy's."""
        return [child for child in self.process.children() if "JUPYTERHUB_USER" in child.environ()]


def free_ports(number: int) -> list[int]:
    """Return ports of this machine that nobody listens on."""
    probes = [socket.socket() for _ in range(number)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


@contextmanager
def running_hub(folder: Path) -> Iterator[Hub]:
    """Start JupyterHub with jupyterhub_config.py, and end it with all its students' servers."""
    ports, password = free_ports(3), secrets.token_hex(16)
    with (folder / "hub.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "jupyterhub", "-f", HERE / "jupyterhub_config.py"],
            cwd=folder,
            env={
                **os.environ,
                "CLASS_FOLDER": str(folder),
                "CLASS_PASSWORD": password,
                "CLASS_PORTS": " ".join(map(str, ports)),
            },
            stdout=log,
            stderr=log,
        )
    try:
        url = f"http://127.0.0.1:{ports[0]}"
        wait_for(f"{url}/hub/api/", process, folder / "hub.log")
        yield Hub(url, password, psutil.Process(process.pid))
    finally:
        everybody = [process, *psutil.Process(process.pid).children(recursive=True)]
        process.terminate()  # the hub ends the servers and the proxy
        try:
            process.wait(timeout=60)
        finally:
            for left in psutil.wait_procs(everybody[1:], timeout=10)[1]:
                left.kill()


def wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        try:
            if requests.get(url, timeout=5).ok:
                return
        except requests.ConnectionError:
            pass
        time.sleep(0.2)
    process.terminate()
    sys.exit(f"JupyterHub did not start:\n{log.read_text(errors='replace')[-2000:]}")


def together(students: list[Student], act: Callable[[Student], None]) -> list[float]:
    """Let all students do something at once; how many seconds it took each."""

    def timed(student: Student) -> float:
        begun = time.perf_counter()
        act(student)
        return time.perf_counter() - begun

    with ThreadPoolExecutor(len(students)) as pool:
        return list(pool.map(timed, students))


def differing_cells(student: Student) -> list[str]:
    """Return the ids of the cells whose outputs are not the stored ones."""
    stored, run = student.stored, student.run
    clean(run)
    keep_masked(run, stored)
    return [
        old.id
        for old, new in zip(stored.cells, run.cells, strict=True)
        if old.get("outputs") != new.get("outputs")
    ]


def megabytes(process: psutil.Process) -> float:
    """Return the memory of a process; what it shares with others is shared out among them."""
    return float(process.memory_full_info().pss) / MB


def seconds(process: psutil.Process) -> float:
    """Return the processor time that a process has used."""
    times = process.cpu_times()
    return times.user + times.system


def teach(number: int, notebook: str) -> tuple[str, bool]:
    """Hold one class; its line of the table, and whether everybody saw the stored outputs."""
    with (
        tempfile.TemporaryDirectory(prefix="class-") as folder,
        running_hub(Path(folder)) as hub,
    ):
        students = [
            Student(hub.url, f"student-{place}", hub.password) for place in range(1, number + 1)
        ]
        together(students, Student.log_in)
        started = together(students, Student.start_server)
        fetched = together(students, lambda student: student.fetch_course(ROOT.as_uri()))
        idle = [seconds(server) for server in hub.servers()]
        took = together(students, lambda student: student.run_notebook(f"{notebook}.ipynb"))
        servers = hub.servers()
        kernels = [kernel for server in servers for kernel in server.children()]
        assert len(servers) == len(kernels) == number, (servers, kernels)
        of_servers, of_kernels = (
            [megabytes(process) for process in group] for group in (servers, kernels)
        )
        proxy = [child for child in hub.process.children() if child not in servers]
        others = sum(map(megabytes, [hub.process, *proxy]))
        used = [seconds(kernel) for kernel in kernels]
        for server, before in zip(servers, idle, strict=True):
            used.append(seconds(server) - before)
        wrong = {student.name: differing_cells(student) for student in students}
        for name, cells in wrong.items():
            if cells:
                print(f"{name} saw other outputs than the stored ones: {', '.join(cells)}")
        line = " | ".join(
            [
                *(f"| {number}", f"{max(started):.1f}", f"{max(fetched):.1f}"),
                *(f"{median(took):.1f}", f"{max(took):.1f}"),
                *(f"{median(of_servers):.0f}", f"{median(of_kernels):.0f}"),
                *(f"{others:.0f}", f"{others + sum(of_servers) + sum(of_kernels):.0f}"),
                f"{median(idle):.1f} + {sum(used) / number:.1f} |",
            ]
        )
        return line, not any(wrong.values())


def main() -> None:
    """Hold the classes, one after another, and print a table."""
    parser = argparse.ArgumentParser(description="A class on this machine, measured.")
    parser.add_argument("numbers", nargs="*", type=int, default=[1, 4, 8], help="of students")
    parser.add_argument("--notebook", default="03_watch_gradients_accumulate")
    given = parser.parse_args()
    if not all(1 <= number <= MOST for number in given.numbers):
        sys.exit(f"A class has 1 to {MOST} students here, not {given.numbers}.")
    print(f"{given.notebook}, {os.cpu_count()} cores, Python {platform.python_version()},")
    print(f"load {os.getloadavg()[0]:.1f} when it began\n")
    print(
        "| students | server is up, s | course is there, s | notebook has run, s: half of them "
        "| all | a server, MB | its kernel, MB | hub and proxy, MB | all together, MB "
        "| CPU s of each: server starts + notebook |\n|" + "---|" * 10
    )
    good = True
    for number in given.numbers:
        line, right = teach(number, given.notebook)
        good &= right
        print(line, flush=True)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
