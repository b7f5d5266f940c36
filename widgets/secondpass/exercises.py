"""The course's exercises: `predict` asks a question, `check` says how an answer stands.

An answer is given in the widget or in the code. It is judged against what torch did, not against
a key that somebody typed: what is passed to `check` as the truth is a result, or a function that
gets it.
"""

from __future__ import annotations

import html
import re
import string
from typing import Any

import ipywidgets
import torch

NOT_ANSWERED = "Not answered yet."
RIGHT = "Right."
NOT_YET = "Not yet."


def predict(question: str, *choices: object, answer: object = ...) -> Prediction:
    """Ask for a prediction: one of the choices, or, where there are none, a number.

    Parameters
    ----------
    question : str
        What stands in backticks is shown as code.
    *choices : object
        Shown as text; none for a number that is typed in.
    answer : object, optional
        A choice, its letter, or the number, for those who would rather write than click.

    Returns
    -------
    Prediction
        Display it by ending a cell with it, and pass it to `check` afterwards.

    Examples
    --------
    >>> predict("What does the second call do?", "it adds 4", "it stops with an error")
    What does the second call do?
      a) it adds 4
      b) it stops with an error
    Choose, or write your letter into the cell in place of `...` and run it again.
    """
    return Prediction(question, choices, answer)


def check(answer: object, truth: object, *, look: str = "") -> None:
    """Print how an answer stands: right, not yet, or not answered yet. It never raises.

    Parameters
    ----------
    answer : Prediction, value or function
        ``...`` counts as not answered. A function is called and what it returns is judged.
    truth : value or function
        What torch gave. A function is called; a RuntimeError that it raises is its outcome.
    look : str, optional
        Where to look after an answer that is not right.

    Examples
    --------
    >>> x = torch.tensor([2.0], requires_grad=True)
    >>> y = x + 1
    >>> y.backward()
    >>> check(predict("How much is `x.grad`?", answer=1), x.grad)
    Right.
    >>> check(2, x.grad, look="the edge from Add to x")
    Not yet. Look at: the edge from Add to x.
    >>> check(..., x.grad)
    Not answered yet.
    """
    print(_verdict(answer, truth, look))


class Prediction:
    """A question with a place for the answer; `predict` makes it.

    Attributes
    ----------
    question : str
    choices : tuple
        Empty where a number is asked for.
    """

    def __init__(self, question: str, choices: tuple[object, ...], answer: object) -> None:
        self.question = question
        self.choices = choices
        layout = ipywidgets.Layout(width="max-content")
        if choices:
            options = [(str(choice), place) for place, choice in enumerate(choices)]
            self._field = ipywidgets.RadioButtons(options=options, value=None, layout=layout)
        else:
            self._field = ipywidgets.Text(placeholder="a number", layout=layout)
        self._box = ipywidgets.VBox([ipywidgets.HTML(_code(question)), self._field])
        self.answer = answer

    @property
    def answer(self) -> object:
        """The choice made, or the number entered; ``...`` where there is none yet."""
        value = self._field.value
        if self.choices:
            return ... if value is None else self.choices[value]
        return value.strip() or ...

    @answer.setter
    def answer(self, answer: object) -> None:
        if not self.choices:
            self._field.value = "" if answer is ... else str(answer)
        elif answer is ...:
            self._field.value = None
        else:
            self._field.value = self._place(answer)

    def _place(self, answer: object) -> int:
        letters = string.ascii_lowercase[: len(self.choices)]
        for place, (letter, choice) in enumerate(zip(letters, self.choices, strict=True)):
            if str(answer).strip().casefold() in (letter, str(choice).casefold()):
                return place
        raise ValueError(f"{answer!r} is none of the choices; write one of: {', '.join(letters)}")

    def __repr__(self) -> str:
        """Return the question, the choices and how to answer, as text."""
        lines = [self.question]
        for letter, choice in zip(string.ascii_lowercase, self.choices, strict=False):
            lines.append(f"  {letter}) {choice}")
        if self.answer is not ...:
            lines.append(f"Your answer: {self.answer}")
        elif self.choices:
            lines.append(
                "Choose, or write your letter into the cell in place of `...` and run it again."
            )
        else:
            lines.append("Enter a number, or write it in place of `...` and run the cell again.")
        return "\n".join(lines)

    def _repr_mimebundle_(self, **_: object) -> dict[str, object]:
        """Return the widget, and the same as HTML and text where no widget can be shown."""
        question, *rest = str(self).splitlines()
        items = "".join(f"<li>{_code(str(choice))}</li>" for choice in self.choices)
        fallback = f"<p>{_code(question)}</p>"
        if items:
            fallback += f'<ol type="a">{items}</ol>'
        fallback += f"<p>{_code(rest[-1])}</p>"
        bundle: dict[str, object] = dict(self._box._repr_mimebundle_())
        return bundle | {"text/plain": str(self), "text/html": fallback}


def _code(text: str) -> str:
    """Return text as HTML, what stands in backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))


def _verdict(answer: object, truth: object, look: str) -> str:
    given = _outcome(answer)
    if given is ... or (given is None and callable(answer)):
        return NOT_ANSWERED
    found = _outcome(truth)
    if isinstance(found, Exception) and not isinstance(found, RuntimeError):
        return f"This could not be checked: {_headline(found)} Were the cells above run?"
    if _agree(given, found):
        return RIGHT
    verdict = NOT_YET
    if isinstance(given, Exception):
        verdict += f" Your code raised {_headline(given)}"
    return f"{verdict} Look at: {look.rstrip('.')}." if look else verdict


def _outcome(thing: Any) -> object:
    """Return a value, or what a function returns or raises."""
    if isinstance(thing, Prediction):
        return thing.answer
    if not callable(thing) or isinstance(thing, torch.Tensor):
        return thing
    try:
        return thing()
    except Exception as error:  # the outcome, whatever it is: a check never raises
        return error


def _headline(error: Exception) -> str:
    """Return an error's kind and its first sentence."""
    sentence = str(error).partition("\n")[0].partition(". ")[0].partition(" (")[0]
    return f"{type(error).__name__}: {sentence.rstrip('.')}."


def _agree(given: object, found: object) -> bool:
    if isinstance(found, Exception):
        return isinstance(given, RuntimeError) or "error" in str(given).casefold()
    if isinstance(found, bool) and isinstance(given, str):
        return given.casefold() in (("yes", "true") if found else ("no", "false"))
    left, right = _numbers(given), _numbers(found)
    if left is not None and right is not None:
        return left.numel() == right.numel() and bool(
            torch.allclose(left.flatten(), right.flatten(), equal_nan=True)
        )
    return _plain(given) == _plain(found)


def _numbers(value: object) -> torch.Tensor | None:
    """Return numbers, a number written as text, or a tensor as float64; None for anything else."""
    try:
        if isinstance(value, str):
            value = float(value)
        return torch.as_tensor(value, dtype=torch.float64).detach()
    except Exception:  # not numbers, whatever else it is
        return None


def _plain(value: object) -> str:
    return " ".join(str(value).casefold().split())
