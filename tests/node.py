"""Run widget.js in Node.js: without a browser, without a package.json."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

WIDGET = Path(__file__).parents[1] / "widgets/secondpass/picture/static/widget.js"


def node_program() -> str:
    """Return Node's path; skip the test where there is none, fail where CI says there must be."""
    found = shutil.which("node")
    if found is None:
        if os.environ.get("CI"):
            pytest.fail("CI is set, but Node.js is missing: install it to test widget.js")
        pytest.skip("Node.js is not installed: widget.js is tested where it is")
    return found


def run_module(code: str, given: str) -> Any:
    """Run code that has the module as ``m``, and return what it gives to ``answer``."""
    program = f"""
      import {{ readFileSync }} from "node:fs";
      import * as m from "./widget.mjs";
      const given = JSON.parse(readFileSync(0, "utf-8"));
      const answer = (value) => process.stdout.write(JSON.stringify(value));
      {code}
    """
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(WIDGET, Path(folder) / "widget.mjs")
        (Path(folder) / "program.mjs").write_text(program, encoding="utf-8")
        done = subprocess.run(
            [node_program(), str(Path(folder) / "program.mjs")],
            input=given,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=60,
        )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
