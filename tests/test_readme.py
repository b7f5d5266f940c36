"""README keeps its word: its code runs, and CI finds its test command."""

import re

import pytest

from regenerate import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_the_python_in_the_readme_runs(
    tmp_path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), {"__name__": "readme"})
    assert "freed by call 1" in capsys.readouterr().out
    assert (tmp_path / "loss.html").stat().st_size > 1000


def test_both_commands_make_their_environment_themselves() -> None:
    start = "python3 -m venv .venv && .venv/bin/python -m pip install -r requirements.txt && "
    commands = [block.strip() for block in blocks("sh") if block.startswith(start)]
    assert [command.split()[-1] for command in commands] == [
        "notebooks/00_start_here.ipynb",
        "pytest",
    ]
    assert all("\n" not in command for command in commands)  # CI takes the test command by line


def test_the_table_of_costs_is_what_was_measured():
    results = (ROOT / "tests/benchmarks/RESULTS.md").read_text("utf-8")
    table = results[results.index("| what |") :].strip()
    assert len(table.splitlines()) > 8
    assert table in README
