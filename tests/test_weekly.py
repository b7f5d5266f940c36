"""The weekly run tests what pyproject.toml and requirements.txt promise."""

from __future__ import annotations

import re

from regenerate import ROOT

WEEKLY = (ROOT / ".github" / "workflows" / "weekly.yml").read_text(encoding="utf-8")


def test_the_weekly_run_begins_with_the_oldest_torch_that_is_allowed() -> None:
    (oldest,) = re.findall(r'"torch>=([\d.]+)"', (ROOT / "pyproject.toml").read_text())
    (pinned,) = re.findall(r"^torch==([\d.]+)$", (ROOT / "requirements.txt").read_text(), re.M)
    (installed,) = re.findall(r"torch==([\d.]+)", WEEKLY)
    assert pinned == installed
    assert pinned.startswith(f"{oldest}.")


def test_the_weekly_run_ends_with_the_newest_torch() -> None:
    assert "--upgrade torch" in WEEKLY
