"""A training cell that fails in JupyterLab: its explanation and picture under the traceback."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Locator, expect

SETUP = "%load_ext secondpass"
MODEL = """import torch
from torch import nn

torch.manual_seed(0)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(6, 8, batch_first=True)
        self.out = nn.Linear(8, 6)

    def forward(self, x, hidden):
        y, hidden = self.rnn(x, hidden)
        return self.out(y), hidden


model = Model()
optimizer = torch.optim.Adam(model.parameters())"""
TRAIN = """hidden = None
for x in torch.randn(4, 2, 5, 6):
    scores, hidden = model(x, hidden)
    loss = (scores - x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()"""
KERNEL = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
EXPLANATION = """\
secondpass: call 2 stopped in MkldnnRnnLayer, made on In [2] line 14:  \
y, hidden = self.rnn(x, hidden)
  Its saved tensors were freed by call 1, In [3] line 6:  loss.backward()
  It was reached again through `hidden`: made in an earlier round, used in this one.
  Before it stopped, this call had already added to model.out.bias.grad, model.out.weight.grad.
  Change, after In [3] line 6:  hidden = tuple(one.detach() for one in hidden)
    the values go on, the graph of the round that is over does not.
  Not retain_graph=True: the graph would grow every round, and a step in between would raise the \
in-place error.""".splitlines()
SENTENCE = "Call 2 stops in MkldnnRnnLayer: its saved tensors were freed by call 1 (In [3] line 6)."
FAILING = 2  # the cell that fails, counted from 0


@pytest.fixture
def failed(tmp_path, open_notebook):
    """Open a notebook with a training cell in a theme, run it, and return what the cell shows."""

    def run(theme: str) -> tuple[object, Locator]:
        cells = [nbformat.v4.new_code_cell(one) for one in (SETUP, MODEL, TRAIN)]
        path = tmp_path / f"training_{theme}.ipynb"
        nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=KERNEL), path)
        here = open_notebook(Path(path), theme=theme)
        here.page.set_viewport_size({"width": 1280, "height": 2400})  # the traceback is long
        here.run_all()
        return here, here.page.locator(".jp-CodeCell").nth(FAILING)

    return run


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_explanation_stands_under_the_traceback_with_its_picture(failed, theme):
    here, cell = failed(theme)
    traceback = cell.locator("[data-mime-type='application/vnd.jupyter.stderr']")
    words = cell.locator("pre", has_text="secondpass: call 2 stopped")
    view = cell.locator(".secondpass")
    expect(view.locator("g.stopped")).to_be_visible()
    here.picture(f"explained_{theme}", cell)

    lines = words.inner_text().splitlines()
    assert [line for line in lines if line.strip()] == EXPLANATION
    expect(words.locator("b").first).to_have_text(EXPLANATION[0])
    bottom, top = box(traceback)["bottom"], box(words)["top"]
    assert bottom <= top and box(words)["bottom"] <= box(view)["top"]

    # The picture stands where the call stopped, on the way there from the new graph to the old.
    stage = box(view.locator(".stage"))
    stopped, way = view.locator("g.node.stopped"), view.locator("g.edge.boundary")
    for one in (stopped, way):
        expect(one).to_have_count(1)
        inside = box(one)
        assert stage["left"] <= inside["left"] and inside["right"] <= stage["right"]
        assert stage["top"] <= inside["top"] and inside["bottom"] <= stage["bottom"]
    expect(stopped).to_contain_text("call 2 stopped")
    expect(stopped).to_contain_text("freed by call 1")
    title = stopped.locator("text", has_text="MkldnnRnnLayer").first
    assert box(title)["bottom"] - box(title)["top"] >= 9  # large enough to be read
    expect(view.locator(".code-line.now .code")).to_have_text("loss.backward()")
    expect(view.locator(".say")).to_have_text(SENTENCE)
    assert here.complaints == []


def box(of: Locator) -> dict[str, float]:
    """Return where something stands in the window."""
    return of.evaluate("one => one.getBoundingClientRect().toJSON()")
