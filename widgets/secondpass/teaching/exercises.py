"""The course's exercises: `predict` asks a question, `check` says how an answer stands.

An answer is given in the widget or in the code. It is judged against what torch did, not against
a key that somebody typed: what is passed to `check` as the truth is a result, or a function that
gets it.
"""

from __future__ import annotations

import dis
import html
import os
import re
import string
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anywidget
import torch
import traitlets

NOT_ANSWERED = "Not answered yet."
RIGHT = "Right."
NOT_YET = "Not yet."

KEY = "SECONDPASS_KEY"
"""Where this environment variable is set, questions are sent their key: a page without a kernel,
which cannot ask torch, judges by it."""

_STATIC = Path(__file__).parent / "static"

_RETURNS = ("LOAD_CONST", "RETURN_CONST", "RETURN_VALUE")
_SAYS_NOTHING = ("RESUME", "NOP", "COPY_FREE_VARS", "MAKE_CELL")

_given: dict[str, str] = {}
"""Answers by question: running the cell that asks again must not forget what was chosen."""


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
    Choose, or write its letter in place of `...` and run the cell again.
    """
    texts = tuple(str(choice) for choice in choices)
    if answer is ...:
        given = _given.get(question, "")
        if texts and given not in tuple(string.ascii_lowercase[: len(texts)]):
            given = ""  # it was asked with other choices
    else:
        given = _letter(answer, texts) if texts else str(answer)
    return Prediction(question=question, choices=list(texts), given=given)


def check(
    answer: object, truth: object, *, run: Callable[[Any], object] | None = None, look: str = ""
) -> None:
    """Print how an answer stands: right, not yet, or not answered yet. It never raises.

    Parameters
    ----------
    answer : Prediction, value or function
        ``...``, and a function with nothing in it, count as not answered.
    truth : value or function
        What torch gave. A function is called; a RuntimeError that it raises is its outcome.
    run : function, optional
        Runs torch with the answer; what it returns must be the truth, not the answer itself.
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
    Not yet. Look at: the edge from Add to x
    >>> check(..., x.grad)
    Not answered yet.
    >>> check(lambda x: x * 5, 5, run=lambda f: torch.func.grad(f)(torch.tensor(1.0)))
    Right.
    """
    if isinstance(answer, Prediction) and run is None and os.environ.get(KEY):
        answer._key = {"right": _right(answer, truth), "look": look}
    print(_verdict(answer, truth, run, look))


class Prediction(anywidget.AnyWidget):
    """A question with a place for the answer; `predict` makes it.

    Attributes
    ----------
    question : str
    choices : list of str
        Empty where a number is asked for.
    given : str
        What was given as the answer: a choice's letter, a number as text, or nothing.
    """

    _esm = _STATIC / "predict.js"
    _css = _STATIC / "predict.css"
    question = traitlets.Unicode().tag(sync=True)
    choices = traitlets.List(traitlets.Unicode()).tag(sync=True)
    given = traitlets.Unicode().tag(sync=True)
    _key = traitlets.Dict().tag(sync=True)

    @property
    def answer(self) -> object:
        """The choice's text or the number as text; ``...`` where there is none yet."""
        if self.given and self.choices:
            return self.choices[string.ascii_lowercase.index(self.given)]
        return self.given.strip() or ...

    @traitlets.observe("given")
    def _remember(self, _: object) -> None:
        _given[self.question] = self.given

    def __repr__(self) -> str:
        """Return the question, the choices and how to answer, as text."""
        choices = zip(string.ascii_lowercase, self.choices, strict=False)
        lines = [self.question, *(f"  {letter}) {choice}" for letter, choice in choices)]
        if self.answer is not ...:
            lines.append(f"Your answer: {self.answer}")
        else:
            way, place = ("Choose", "its letter") if self.choices else ("Enter it", "the number")
            lines.append(f"{way}, or write {place} in place of `...` and run the cell again.")
        return "\n".join(lines)

    def _repr_mimebundle_(self, **options: Any) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """Return the widget, and the same as HTML and text where no widget can be shown."""
        data, metadata = super()._repr_mimebundle_(**options) or ({}, {})
        text = str(self)
        question, *lines = text.splitlines()
        how = lines.pop()
        choices = "".join(f"<br>{_code(line.strip())}" for line in lines)
        data["text/plain"] = text
        data["text/html"] = f"<p>{_code(question)}{choices}</p><p>{_code(how)}</p>"
        return data, metadata


def _letter(answer: object, choices: tuple[str, ...]) -> str:
    """Return the letter of the choice that an answer written in code means."""
    letters = string.ascii_lowercase[: len(choices)]
    for letter, choice in zip(letters, choices, strict=True):
        if _plain(answer) in (letter, _plain(choice)):
            return letter
    raise ValueError(f"{answer!r} is none of the choices: write one of {', '.join(letters)}")


def _code(text: str) -> str:
    """Return text as HTML, what stands in backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))


def _right(question: Prediction, truth: object) -> list[str | float]:
    """Return what would be judged as right: letters of choices, or a number."""
    found = _outcome(truth)
    if isinstance(found, Exception) and not isinstance(found, RuntimeError):
        return []
    if question.choices:
        pairs = zip(string.ascii_lowercase, question.choices, strict=False)
        return [letter for letter, choice in pairs if _agree(choice, found)]
    numbers = _numbers(found)
    return [] if numbers is None or numbers.numel() != 1 else [float(numbers)]


def _verdict(answer: object, truth: object, run: Callable[[Any], object] | None, look: str) -> str:
    if isinstance(answer, Prediction):
        answer = answer.answer
    if answer is ... or _is_empty(answer):
        return NOT_ANSWERED
    found = _outcome(truth)
    if isinstance(found, Exception) and not isinstance(found, RuntimeError):
        return f"This could not be checked: {_headline(found)} Were the cells above run?"
    given = answer if run is None else _outcome(lambda: run(answer))
    if _agree(given, found):
        return RIGHT
    verdict = NOT_YET
    if isinstance(given, Exception):
        verdict += f" It raised {_headline(given)}"
    return f"{verdict} Look at: {look}" if look else verdict


def _is_empty(answer: object) -> bool:
    """Say whether an answer is a function that is still to be written: ``def f(x): ...``.

    Examples
    --------
    >>> def described(x):
    ...     "Return its double."
    >>> _is_empty(described), _is_empty(lambda x: ...), _is_empty(lambda x: 2 * x)
    (True, True, False)
    """
    if not isinstance(answer, types.FunctionType):
        return False
    # Whatever runs there: all that it does is to return nothing, or `...`.
    told = [one for one in dis.get_instructions(answer) if one.opname not in _SAYS_NOTHING]
    return all(one.opname in _RETURNS and one.argval in (None, ...) for one in told)


def _outcome(thing: object) -> object:
    """Return a value, or what a function returns or raises."""
    if not callable(thing) or isinstance(thing, torch.Tensor):
        return thing
    try:
        return thing()
    except Exception as error:  # whatever it is: a check never raises
        return error


def _headline(error: Exception) -> str:
    """Return an error's kind and its first sentence."""
    sentence = str(error).partition("\n")[0].partition(". ")[0].partition(" (")[0]
    return f"{type(error).__name__}: {sentence.rstrip('.')}."


def _agree(given: object, found: object) -> bool:
    if isinstance(found, Exception):
        text = _plain(given)
        return isinstance(given, RuntimeError) or ("error" in text and not _NO_ERROR.search(text))
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
            value = float(value.replace(",", "."))  # as a page without a kernel reads it
        return torch.as_tensor(value, dtype=torch.float64).detach()
    except Exception:  # not numbers, whatever else it is
        return None


_NO_ERROR = re.compile(r"\b(no|not an|never an|without an|without any|without) error")


def _plain(value: object) -> str:
    return " ".join(str(value).casefold().split())
