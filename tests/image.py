"""The image that Binder would build of this repository: what repo2docker writes, without Docker.

``dockerfile()`` is repo2docker's own Dockerfile. ``build(home)`` does what it does with this
repository in a scratch environment: the same files, the same lines, in the same order. What it
cannot do is the system below: conda's Python and Ubuntu are replaced by this Python and a venv,
into which pip installs the versions of Jupyter that repo2docker's conda lock file names.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from regenerate import ROOT

SCRIPT_SECONDS = 600
PASSED_ON = re.compile(r"^PIP_|_PROXY$", re.IGNORECASE)  # how packages are reached from here
PIP_NAMES = {"jupyterhub-singleuser": "jupyterhub"}


@cache
def dockerfile() -> str:
    """Return the Dockerfile that repo2docker writes for this repository."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "repo2docker", "--no-build", "--debug"),
            *("--Repo2Docker.platform=linux/amd64", str(ROOT)),
        ],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def scripts() -> list[str]:
    """Return the Dockerfile's RUN lines that use this repository's files, in their order."""
    steps = re.findall(r"^RUN (.+?)(?<!\\)$", dockerfile(), flags=re.MULTILINE | re.DOTALL)
    return [step for step in steps if "binder/" in step]


def python_version() -> str:
    """Return the Python, as in ``3.11``, of the environment that the Dockerfile installs."""
    (version,) = re.findall(r"environment-2epy-2d(\d)-2e(\d+)-2d", dockerfile())
    return ".".join(version)


def base_packages() -> list[str]:
    """Return what the base environment has of Jupyter, at the versions locked by repo2docker."""
    import repo2docker

    folder = Path(repo2docker.__file__).parent / "buildpacks" / "conda"
    wanted = (folder / f"environment.py-{python_version()}.yml").read_text()
    locked = (folder / f"environment.py-{python_version()}-linux-64.lock").read_text()
    found = []
    for name in re.findall(r"^- ([\w-]+)==", wanted, flags=re.MULTILINE):
        (version,) = re.findall(rf"/{name}-([\d.]+)-[^/]+$", locked, flags=re.MULTILINE)
        found.append(f"{PIP_NAMES.get(name, name)}=={version}")
    return found


@dataclass
class Image:
    """A built image: its environment and the repository, which is a visitor's home."""

    prefix: Path
    home: Path
    said: str

    @property
    def variables(self) -> dict[str, str]:
        """What is set while the image is built and when it runs."""
        return {
            **{name: value for name, value in os.environ.items() if PASSED_ON.search(name)},
            "HOME": str(self.home),
            "REPO_DIR": str(self.home),
            "KERNEL_PYTHON_PREFIX": str(self.prefix),
            "PATH": os.pathsep.join((str(self.prefix / "bin"), "/usr/bin", "/bin")),
            "LC_ALL": "C.UTF-8",
            "PYTHONUNBUFFERED": "1",
            "R2D_ENTRYPOINT": str(self.home / "binder" / "start"),
        }

    def run(self, script: str) -> None:
        """Run a line of the Dockerfile, in the repository's folder."""
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self.home,
            env=self.variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SCRIPT_SECONDS,
        )
        self.said += f"$ {script}\n{done.stdout}"
        assert done.returncode == 0, self.said

    def entry_point(self) -> list[str]:
        """Return the beginning of the command line that starts the image."""
        import repo2docker

        script = Path(repo2docker.__file__).parent / "buildpacks" / "repo2docker-entrypoint"
        return [str(self.prefix / "bin" / "python"), "-u", str(script)]


def build(folder: Path) -> Image:
    """Build the image in an empty folder."""
    image = Image(folder / "notebook", folder / "jovyan", "")
    image.home.mkdir()
    subprocess.run([sys.executable, "-m", "venv", image.prefix], check=True)
    # Where PyTorch's own index is out of reach, pip need not ask five times for each package.
    os.environ.setdefault("PIP_RETRIES", "1")
    image.run(f"pip install --quiet {' '.join(base_packages())}")
    install, *others = scripts()
    (image.home / "binder").mkdir()
    shutil.copy(ROOT / "binder" / "requirements.txt", image.home / "binder")
    image.run(install)  # before the rest of the repository is there
    copy_repository(image.home)
    for script in others:
        image.run(script)
    return image


def copy_repository(to: Path) -> None:
    """Copy what git knows of the work tree."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, to / name)
