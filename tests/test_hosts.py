"""What binder/HOSTS.md says of hosts that no test can open."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SHOWN_IN_COLAB = """
import sys, types

class Output(types.ModuleType):
    calls = 0
    _widgets = types.SimpleNamespace(_installed_url=None)

    def enable_custom_widget_manager(self):
        self.calls += 1
        self._widgets._installed_url = "https://example.org/manager"

output = Output("google.colab.output")
sys.modules["google.colab.output"] = output

import torch
import secondpass as sp

x = torch.tensor([3.0], requires_grad=True)
question = sp.predict("How much?", answer=...)
for view in (sp.show(x**2), sp.Playground(), question):
    data, metadata = view._repr_mimebundle_()
    print(output.calls, *metadata.get("application/vnd.jupyter.widget-view+json", {}))
"""


def test_in_colab_every_widget_of_ours_switches_on_the_manager_for_custom_widgets() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SHOWN_IN_COLAB], capture_output=True, text=True, timeout=60
    )
    assert done.stdout.splitlines() == ["1 colab"] * 3, done.stderr


def test_the_front_end_that_vs_code_looks_for_first_is_installed() -> None:
    folder = Path(sys.prefix) / "share" / "jupyter" / "nbextensions" / "anywidget"
    assert (folder / "index.js").is_file()
