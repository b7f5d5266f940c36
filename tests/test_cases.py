"""Every case of ``cases``: what is said of the broken script is right, the mended one is quiet."""

import json
import re
import sys
import types
from pathlib import Path

import pytest
import torch

from secondpass.explaining import listening
from secondpass.hearing import loading

HERE = Path(__file__).parent / "cases"
FOLDERS = (HERE, HERE / "more")
CASES = [
    pytest.param(folder, name, id=name.removesuffix(".py"))
    for folder in FOLDERS
    for name in json.loads((folder / "labels.json").read_text())
]


@pytest.fixture(autouse=True)
def as_it_was(recwarn):
    torch.manual_seed(0)
    yield
    torch.set_grad_enabled(True)  # one case leaves it switched off


def run(script: Path) -> tuple[dict, str]:
    """Run a script as ``python -m secondpass`` does, in this process."""
    loading.install_marks()
    code = loading.compile_marked(script.read_bytes(), str(script))
    # Held by no variable here: its variables must have no other name than the script's own.
    sys.modules["case"] = types.ModuleType("case")
    sys.modules["case"].__file__ = str(script)
    error = None
    listening.start()
    try:
        exec(code, vars(sys.modules["case"]))
    except Exception as raised:
        error = raised
    finally:
        listening.stop()
        del sys.modules["case"]
    found = listening.last_words(error)
    return found.to_dict(), str(found)


def line(place: dict | None) -> int | None:
    return None if place is None else place["line"]


def last_name(name: str) -> str:
    return re.findall(r"[A-Za-z_]\w*", re.sub(r"\[[^\]]*\]", "", name))[-1]


@pytest.mark.parametrize(("folder", "name"), CASES)
def test_a_broken_script_is_explained(folder, name):
    label = json.loads((folder / "labels.json").read_text())[name]
    report, words = run(folder / "broken" / name)
    assert report["error"] == label["error"]
    assert len(words.splitlines()) <= 12
    if not label["error"]:
        if label["notices"]:
            assert {one["kind"] for one in report["notices"]} & set(label["notices"]), report
        return
    if label["created"]:
        assert line(report["node"]["created"]) == label["created"]
    assert line(report["freed_by"]) == label["freed"]
    assert line(report["failed_at"]) in {label["failed"], label["raised_in"]} - {None}
    if label["modified"]:
        assert line(report["modified_at"]) == label["modified"]
    if label["cut"]:
        assert line(report["cut_at"]) == label["cut"]
    if label["families"]:
        assert report["family"] in label["families"]
    if label["carriers"] and label["error"] in ("backward-twice", "copied-non-leaf"):
        assert {last_name(one["name"]) for one in report["carriers"]} & set(label["carriers"])
    assert report["fix"] and all(one["do"] and one["why"] for one in report["fix"])


@pytest.mark.parametrize(("folder", "name"), CASES)
def test_a_mended_script_is_quiet(folder, name):
    report, words = run(folder / "fixed" / name)
    assert report["error"] is None
    assert report["notices"] == []
    assert words == "secondpass: no call has failed."
