"""Binder's image: what repo2docker makes of binder/, and the links that lead to it."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from image import base_packages, dockerfile, python_version, scripts
from regenerate import ROOT, course

BINDER = ROOT / "binder"
CLASSROOM = ROOT / "tests" / "classroom"
LINKS = runpy.run_path(str(BINDER / "links.py"))
ON_POSIX = pytest.mark.skipif(sys.platform == "win32", reason="repo2docker does not run on Windows")


def pins(path: Path) -> dict[str, str]:
    """The packages in a requirements file and their versions, without a build's ``+cpu``."""
    return dict(re.findall(r"^([\w-]+)==([\d.]+)", path.read_text("utf-8"), flags=re.MULTILINE))


def test_binder_pins_what_a_learner_needs_as_the_requirements_do() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    needed = {re.split("[<>=~]", package)[0] for package in project["dependencies"]}
    binder, everything = pins(BINDER / "requirements.txt"), pins(ROOT / "requirements.txt")
    assert binder.pop("nbgitpuller") == pins(CLASSROOM / "requirements.txt")["nbgitpuller"]
    assert set(binder) >= needed | {"jupyterlab"}
    assert binder == {name: everything.get(name) for name in binder}


def test_pip_can_only_take_the_cpu_build_of_torch_and_asks_for_all_else_as_usual() -> None:
    lines = (BINDER / "requirements.txt").read_text("utf-8").splitlines()
    assert next(line for line in lines if line.startswith("torch==")).endswith("+cpu")
    options = [line for line in lines if line.startswith("-")]
    assert options == ["--extra-index-url https://download.pytorch.org/whl/cpu"]


def test_no_file_in_binder_is_one_that_would_replace_the_others() -> None:
    assert not {"Dockerfile", "environment.yml", "Pipfile", "default.nix", "Project.toml"} & set(
        os.listdir(BINDER)
    )


@pytest.mark.parametrize("page", sorted(BINDER.glob("*.md")), ids=lambda page: page.name)
def test_links_of_the_pages_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8"))
    local = [link for link in links if not link.startswith("http")]
    assert local
    assert [link for link in local if not (BINDER / link).exists()] == []


def test_ci_can_run_what_the_page_about_hosts_names() -> None:
    names = re.findall(r"`(\.ci/\w+)`", (BINDER / "HOSTS.md").read_text("utf-8"))
    assert len(names) == 2
    assert [name for name in names if not os.access(ROOT / name, os.X_OK)] == []


@pytest.mark.parametrize("name", ["postBuild", "start"])
def test_scripts_stop_at_a_fault_and_git_knows_that_they_are_executable(name: str) -> None:
    text = (BINDER / name).read_text("utf-8")
    assert text.startswith("#!/usr/bin/env bash\n")
    assert "\nset -euo pipefail\n" in text
    said = subprocess.run(
        ["git", "ls-files", "--stage", f"binder/{name}"], cwd=ROOT, capture_output=True, text=True
    )
    assert said.stdout.startswith("100755 ")


@ON_POSIX
def test_repo2docker_installs_the_packages_before_it_copies_the_repository() -> None:
    """Then a commit that changes no pin does not install torch again."""
    (install,) = [line for line in dockerfile().splitlines() if "pip install" in line]
    assert install.endswith('/bin/pip install --no-cache-dir -r "binder/requirements.txt"')
    lines = dockerfile().splitlines()
    copies = [place for place, line in enumerate(lines) if line.endswith(" src/ ${REPO_DIR}/")]
    assert [lines.index(install) < place for place in copies] == [True]


@ON_POSIX
def test_repo2docker_runs_postbuild_starts_through_start_and_has_the_right_python() -> None:
    assert scripts() == [
        '${KERNEL_PYTHON_PREFIX}/bin/pip install --no-cache-dir -r "binder/requirements.txt"',
        "chmod +x binder/postBuild",
        "./binder/postBuild",
        'chmod +x "${REPO_DIR}/binder/start"',
    ]
    assert 'ENV R2D_ENTRYPOINT="${REPO_DIR}/binder/start"' in dockerfile()
    assert 'ENTRYPOINT ["/usr/local/bin/repo2docker-entrypoint"]' in dockerfile()
    assert f"python-{python_version()}" == (BINDER / "runtime.txt").read_text().strip()
    assert (
        python_version()
        >= re.findall(
            r'requires-python = ">=([\d.]+)"', (ROOT / "pyproject.toml").read_text("utf-8")
        )[0]
    )


@ON_POSIX
def test_the_base_environment_has_a_jupyterlab_of_its_own() -> None:
    names = [package.partition("==")[0] for package in base_packages()]
    assert {"jupyterlab", "notebook", "jupyterhub", "jupyter_server"} <= set(names)


@pytest.mark.skipif(sys.platform == "win32", reason="binder/start is a shell script")
def test_start_sets_one_thread_and_gives_way_to_the_command() -> None:
    said = subprocess.run(
        [BINDER / "start", "bash", "-c", "echo $OMP_NUM_THREADS $$; exit 3"],
        capture_output=True,
        text=True,
    )
    assert said.stdout.split()[0] == "1"
    assert said.returncode == 3


@pytest.mark.parametrize(
    ("remote", "link"),
    [
        ("https://github.com/a/b.git", "gh/a/b/v1"),
        ("git@github.com:a/b.git", "gh/a/b/v1"),
        ("ssh://git@github.com/a/b", "gh/a/b/v1"),
        ("https://someone:secret@github.com/a/b", "gh/a/b/v1"),
        ("https://gitlab.com/a/sub/b.git", "gl/a%2Fsub%2Fb/v1"),
        ("https://git.example.edu/a/b", "git/https%3A%2F%2Fgit.example.edu%2Fa%2Fb/v1"),
    ],
)
def test_the_link_is_the_repositorys_own(remote: str, link: str) -> None:
    address = LINKS["web_address"](remote)
    assert LINKS["binder_link"](address, "v1") == (
        f"https://mybinder.org/v2/{link}?urlpath=lab/tree/notebooks/00_start_here.ipynb"
    )


@pytest.mark.parametrize("remote", ["", "/srv/git/course", "https://github.com/a", "course"])
def test_where_there_is_no_web_address_the_links_say_what_to_give(remote: str) -> None:
    with pytest.raises(ValueError, match=r"Give one, as in python binder/links\.py https://"):
        LINKS["web_address"](remote)


def test_a_class_can_be_sent_to_another_folder() -> None:
    link = LINKS["hub_link"]("https://hub.example.edu/", "https://github.com/a/b", "main", "kept/b")
    assert "//hub.example.edu/hub/user-redirect/git-pull?" in link
    assert link.endswith(
        "lab%2Ftree%2Fkept%2Fb%2Fnotebooks%2F00_start_here.ipynb&targetpath=kept%2Fb"
    )


def test_every_notebook_has_its_links() -> None:
    said = subprocess.run(
        [sys.executable, BINDER / "links.py", "https://github.com/a/b", "v1"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for path in course():
        assert f"?urlpath=lab/tree/notebooks/{path.name}\n" in said
        assert f"/github/a/b/blob/v1/notebooks/{path.name}\n" in said
