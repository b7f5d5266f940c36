"""Questions and checks: they judge by what torch did, give nothing away, and never raise."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import secondpass as sp
from secondpass.teaching import exercises

NOT_ANSWERED = "Not answered yet."
RIGHT = "Right."
NOT_YET = "Not yet."


@pytest.fixture(autouse=True)
def _forget_answers() -> None:
    exercises._given.clear()


def said(capsys: pytest.CaptureFixture[str], *arguments: Any, **options: Any) -> str:
    sp.check(*arguments, **options)
    return capsys.readouterr().out.strip()


def stop() -> None:
    y = torch.tensor([2.0], requires_grad=True) ** 2
    y.backward()
    y.backward()


@pytest.mark.parametrize(
    ("answer", "truth", "verdict"),
    [
        (8, torch.tensor([8.0]), RIGHT),
        ("8", torch.tensor(8.0), RIGHT),
        ("8.0", 8, RIGHT),
        (4, torch.tensor([8.0]), NOT_YET),
        ([1, 2], torch.tensor([1.0, 2.0]), RIGHT),
        ([1, 2], torch.tensor([1.0]), NOT_YET),
        ((3, 0), (3, 0), RIGHT),
        ("None", None, RIGHT),
        (None, None, RIGHT),
        ("Freed ", "freed", RIGHT),
        ("held", "freed", NOT_YET),
        ("yes", True, RIGHT),
        ("no", True, NOT_YET),
        (True, True, RIGHT),
        (True, False, NOT_YET),
        ("it stops with an error", stop, RIGHT),
        ("it adds 4", stop, NOT_YET),
        ("it adds 4, with no error", stop, NOT_YET),
        ("it runs without an error", stop, NOT_YET),
        ("0,5", 0.5, RIGHT),
        (torch.tensor([float("nan")]), float("nan"), RIGHT),
        ("four", 4, NOT_YET),
    ],
)
def test_an_answer_is_judged_by_what_torch_gave(
    answer: Any, truth: Any, verdict: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said(capsys, answer, truth) == verdict


def unwritten(x: Any) -> None: ...


def described(x: Any) -> None:
    """Return what is asked for."""


@pytest.mark.parametrize(
    "answer", [..., unwritten, described, lambda x: ..., sp.predict("How many?", answer=...)]
)
def test_what_is_not_answered_is_said_to_be_so(
    answer: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said(capsys, answer, 1, run=lambda answer: answer) == NOT_ANSWERED
    assert said(capsys, answer, lambda: 1 / 0) == NOT_ANSWERED


def gradient_at_2(function: Any) -> torch.Tensor | None:
    x = torch.tensor(2.0, requires_grad=True)
    function(x).backward()
    return x.grad


def test_a_function_is_judged_by_what_torch_makes_of_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert said(capsys, lambda x: x**3, 12, run=gradient_at_2) == RIGHT
    assert said(capsys, lambda x: x**2, 12, run=gradient_at_2) == NOT_YET


def test_a_check_never_raises_and_says_what_went_wrong(
    capsys: pytest.CaptureFixture[str],
) -> None:
    wrong = said(capsys, lambda x: x.nothing, 12, run=gradient_at_2, look="the name")
    assert wrong == (
        "Not yet. It raised AttributeError: 'Tensor' object has no attribute 'nothing'. "
        "Look at: the name"
    )
    unrun = said(capsys, 1, lambda: not_defined)  # noqa: F821
    assert unrun.startswith("This could not be checked: NameError")


def test_a_wrong_answer_is_not_told_the_right_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert "8" not in said(capsys, 4, torch.tensor([8.0]), look="the stack of x")


def test_a_choice_is_given_by_its_letter_its_text_or_a_click() -> None:
    assert sp.predict("Which?", "held", "freed", answer="b").answer == "freed"
    assert sp.predict("Which?", "held", "freed", answer="Freed").answer == "freed"
    clicked = sp.predict("Which one?", "held", "freed")
    assert clicked.answer is ...
    clicked.given = "a"
    assert clicked.answer == "held"
    with pytest.raises(ValueError, match="'gone' is none of the choices: write one of a, b"):
        sp.predict("Which?", "held", "freed", answer="gone")


def test_running_the_cell_again_keeps_what_was_chosen() -> None:
    sp.predict("Which?", "held", "freed").given = "b"
    assert sp.predict("Which?", "held", "freed").answer == "freed"


def test_an_answer_to_other_choices_is_forgotten() -> None:
    sp.predict("Which?", "held", "freed", "none").given = "c"
    asked = sp.predict("Which?", "held", "freed")
    assert asked.answer is ... and "Choose" in repr(asked)
    sp.predict("How many?").given = "7"
    assert sp.predict("How many?", "one", "two").answer is ...


def test_without_a_widget_the_question_can_be_read_and_answered() -> None:
    shown, _ = sp.predict("How much is `x.grad` <now>?", "4", "8")._repr_mimebundle_()
    assert shown["text/plain"].splitlines() == [
        "How much is `x.grad` <now>?",
        "  a) 4",
        "  b) 8",
        "Choose, or write its letter in place of `...` and run the cell again.",
    ]
    assert "<code>x.grad</code> &lt;now&gt;" in shown["text/html"]
    assert "application/vnd.jupyter.widget-view+json" in shown
