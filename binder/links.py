"""Print the links that open the course on Binder, Colab or a class's JupyterHub.

    python binder/links.py                                             # for this clone
    python binder/links.py https://github.com/someone/their-fork v1.0  # for another
    python binder/links.py --hub https://hub.example.edu               # to hand out in a class

In a clone the repository's address and the version (the newest tag, or else the commit) are read
from git, so a fork's links open the fork.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote, urlencode, urlsplit

ROOT = Path(__file__).resolve().parent.parent
START = "notebooks/00_start_here.ipynb"
BINDER = "https://mybinder.org/v2"
COLAB = "https://colab.research.google.com/github"


def git(*arguments: str) -> str:
    """Return what git says in this clone; nothing where it fails."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def web_address(remote: str) -> str:
    """Return the web address of a repository, from any form of address that git takes.

    Examples
    --------
    >>> web_address("git@github.com:someone/course.git")
    'https://github.com/someone/course'
    """
    if "://" not in remote and ":" in remote:
        remote = "ssh://" + remote.replace(":", "/", 1)
    parts = urlsplit(remote)
    if not parts.hostname or len(parts.path.strip("/").split("/")) < 2:
        raise ValueError(
            f"{remote!r} is no web address of a repository. Give one, as in "
            "python binder/links.py https://github.com/someone/course"
        )
    return f"https://{parts.hostname}/{parts.path.strip('/').removesuffix('.git')}"


def binder_link(address: str, version: str, notebook: str = START) -> str:
    """Return the link that opens a notebook in JupyterLab on mybinder.org.

    Examples
    --------
    >>> binder_link("https://github.com/someone/course", "v1.0")
    'https://mybinder.org/v2/gh/someone/course/v1.0?urlpath=lab/tree/notebooks/00_start_here.ipynb'
    """
    parts = urlsplit(address)
    path = parts.path.strip("/")
    where = {"github.com": f"gh/{path}", "gitlab.com": f"gl/{quote(path, safe='')}"}.get(
        parts.hostname or "", f"git/{quote(address, safe='')}"
    )
    return f"{BINDER}/{where}/{quote(version, safe='')}?urlpath=lab/tree/{notebook}"


def colab_link(address: str, version: str, notebook: str = START) -> str:
    """Return the link that opens a notebook of a GitHub repository in Colab, or nothing.

    Examples
    --------
    >>> colab_link("https://github.com/someone/course", "v1.0")
    'https://colab.research.google.com/github/someone/course/blob/v1.0/notebooks/00_start_here.ipynb'
    """
    parts = urlsplit(address)
    if parts.hostname != "github.com":
        return ""
    return f"{COLAB}{parts.path}/blob/{version}/{notebook}"


def hub_link(hub: str, address: str, branch: str, folder: str = "") -> str:
    """Return nbgitpuller's link: it brings the repository to a student's home and opens it.

    The folder is where it goes; its own name where none is given.

    Examples
    --------
    >>> hub_link("https://hub.example.edu", "https://github.com/someone/course", "main")
    'https://hub.example.edu/hub/user-redirect/git-pull?repo=https%3A%2F%2Fgithub.com%2Fsomeone%2Fcourse&branch=main&urlpath=lab%2Ftree%2Fcourse%2Fnotebooks%2F00_start_here.ipynb'
    """
    name = folder.strip("/") or address.rpartition("/")[2]
    asked = {"repo": address, "branch": branch, "urlpath": f"lab/tree/{name}/{START}"}
    if folder:
        asked["targetpath"] = name
    return f"{hub.rstrip('/')}/hub/user-redirect/git-pull?{urlencode(asked)}"


def main() -> None:
    """Print the links."""
    parser = argparse.ArgumentParser(
        description="Print the links that open the course on Binder, Colab or a JupyterHub."
    )
    parser.add_argument("address", nargs="?", help="of the repository; this clone's if left out")
    parser.add_argument(
        "version", nargs="?", help="a tag or a commit; for this clone, its newest if left out"
    )
    parser.add_argument("--hub", help="address of a JupyterHub that has nbgitpuller")
    parser.add_argument("--branch", default="main", help="what the hub pulls (default: main)")
    parser.add_argument("--folder", default="", help="where in a home it goes (default: its name)")
    given = parser.parse_args()
    try:
        address = web_address(given.address or git("remote", "get-url", "origin"))
    except ValueError as error:
        sys.exit(str(error))
    if given.hub:
        if not urlsplit(given.hub).hostname:
            sys.exit(f"{given.hub!r} is no web address: give it as https://hub.example.edu")
        print(hub_link(given.hub, address, given.branch, given.folder))
        return
    if given.address and not given.version:
        sys.exit("Which version of it? Give a tag or a commit after the address, or a branch.")
    version = given.version or git("describe", "--tags", "--abbrev=0") or git("rev-parse", "HEAD")
    for notebook in sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb")):
        name = notebook.relative_to(ROOT).as_posix()
        print(notebook.stem)
        print(f"  Binder  {binder_link(address, version, name)}")
        if colab := colab_link(address, version, name):
            print(f"  Colab   {colab}")


if __name__ == "__main__":
    main()
