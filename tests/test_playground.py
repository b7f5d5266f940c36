"""The playground runs exactly the code that it shows, and only what it may."""

import itertools

import pytest

from secondpass.teaching.playground import Playground
from secondpass.teaching.snippet import (
    BETWEEN,
    EXPRESSIONS,
    FUNCTIONS,
    RETAIN,
    ZERO,
    ExpressionError,
    Snippet,
    check,
)


def texts(playground, kind):
    return [f.text for f in playground.view.recording.frames if f.kind == kind]


def test_the_first_view_is_the_lesson():
    playground = Playground()
    assert playground.code.endswith("y = x**2\ny.backward()\ny.backward()")
    assert playground.error.startswith(
        "RuntimeError: Trying to backward through the graph a second"
    )
    assert playground.view.frame.kind == "stop"


def test_a_choice_changes_code_and_picture():
    playground = Playground()
    playground.retain = "all"
    assert playground.code.count("retain_graph=True") == 2
    assert playground.error == ""
    assert texts(playground, "accumulate") == ["Call 1: x.grad = 4", "Call 2: x.grad 4 + 4 = 8"]
    playground.zero = "x.grad.zero_()"
    assert texts(playground, "zero") == ["x.grad was reset: 4 → 0"]
    playground.between = "rebuild y"
    playground.retain = "none"
    assert playground.error == "" and len(playground.view.graph.roots) == 2
    playground.between = "detach y"
    assert "does not require grad" in playground.error


@pytest.mark.parametrize(
    "expression, passes, retain, create_graph",
    list(itertools.product(EXPRESSIONS[:4], (1, 3), RETAIN, (False, True))),
)
@pytest.mark.filterwarnings("ignore:Using backward")
def test_what_it_shows_is_what_happens(expression, passes, retain, create_graph):
    for zero, between in itertools.product(ZERO, BETWEEN):
        snippet = Snippet(expression, passes, retain, create_graph, zero, between)
        names, error = {}, ""
        try:
            exec(snippet.code(), names)
        except RuntimeError as stopped:
            error = f"RuntimeError: {stopped}"
        playground = Playground(
            expression=expression,
            passes=passes,
            retain=retain,
            create_graph=create_graph,
            zero=zero,
            between=between,
        )
        assert playground.code == snippet.code()
        assert playground.error == error
        grad = names["x"].grad
        (x,) = [leaf for leaf in playground.view.graph.leaves if leaf.name == "x"]
        shown = [f.after for f in playground.view.recording.frames if f.leaf == "x"]
        assert (shown or [None])[-1] == (None if grad is None else f"{grad.item():.4g}")
        assert x.grad == str((shown or ["None"])[-1])


@pytest.mark.parametrize(
    "hostile",
    [
        "__import__('os').system('true')",
        "x.__class__",
        "x.data.fill_(1)",
        "torch.load('a')",
        "(lambda: x)()",
        "[x for _ in range(9)]",
        "x if x else w",
        "9**9**9**9",
        "x**9999999999",
        "x := 2",
        "print(x)",
        "x.exp().numpy()",
        "f'{x}'",
        "'a' * x",
        "True * x",
        "x; x",
        "x\ny",
        "",
        "((((",
        "2",
        "torch.exp(x, out=x)",
        "x.sum(0)",
        "z",
        "x * " * 60 + "x",
        "\x00",
    ],
)
def test_anything_else_is_an_error_that_says_what_may_be_typed(hostile):
    with pytest.raises(ExpressionError):
        check(hostile)
    playground = Playground()
    before = playground.view.frame
    playground.expression = hostile
    assert playground.error
    assert playground.view.frame == before, "the last picture stays"
    playground.expression = "x + 1"
    assert playground.error == ""


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_every_function_it_offers_is_torchs(name):
    for expression in (f"x.{name}()", f"torch.{name}(x)"):
        playground = Playground(expression=expression, passes=1)
        assert playground.error == "" or name == "detach"


def test_an_unknown_keyword_names_the_valid_ones():
    with pytest.raises(TypeError, match=r"expresion.*Valid keywords: expression, passes"):
        Playground(expresion="x")


def test_its_output_is_the_code_and_a_picture():
    bundle = Playground()._repr_mimebundle_()
    data = bundle[0] if isinstance(bundle, tuple) else bundle
    assert data["text/plain"].startswith("import torch\n")
    assert data["text/html"].count("<img ") == 1
    assert "<script" not in data["text/html"]
