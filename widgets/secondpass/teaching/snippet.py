"""Snippets of the playground: from a few choices to the lines of code that they stand for."""

from __future__ import annotations

import ast
from dataclasses import dataclass

EXPRESSIONS = (
    "x**2",
    "x + 1",
    "x * w",
    "(x * w)**2",
    "x.exp()",
    "torch.sin(x) * x",
    "(x * 3).relu() + x",
)
"""Expressions that the playground offers."""

RETAIN = ("none", "all but the last", "all")
"""Which passes get ``retain_graph=True``."""

ZERO = ("no", "x.grad.zero_()", "x.grad = None")
"""What is done to the gradients between two passes."""

BETWEEN = ("nothing", "rebuild y", "detach y")
"""What is done to the result between two passes."""

MOST_PASSES = 5

FUNCTIONS = frozenset(
    "abs clone cos detach exp log mean neg relu sigmoid sin sqrt square sum tanh".split()
)
"""Functions that an expression may call, as ``torch.exp(x)`` or ``x.exp()``."""

LONGEST = 120

_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.USub, ast.UAdd)


class ExpressionError(ValueError):
    """An expression that the playground does not run; the message says what it may hold."""


@dataclass(frozen=True)
class Snippet:
    """What the playground runs.

    Attributes
    ----------
    expression : str
        Of ``x``, ``w``, numbers, + - * / ** and the `FUNCTIONS`.
    passes : int
        From 1 to `MOST_PASSES`.
    retain : str
        One of `RETAIN`.
    create_graph : bool
    zero : str
        One of `ZERO`.
    between : str
        One of `BETWEEN`.

    Examples
    --------
    >>> print(Snippet("x**2", passes=2, retain="all but the last").code())
    import torch
    <BLANKLINE>
    x = torch.tensor([2.0], requires_grad=True)
    y = x**2
    y.backward(retain_graph=True)
    y.backward()
    """

    expression: str = "x**2"
    passes: int = 2
    retain: str = "none"
    create_graph: bool = False
    zero: str = "no"
    between: str = "nothing"

    def code(self) -> str:
        """Return the lines of code.

        Raises
        ------
        ExpressionError
            Where the expression holds anything else than it may.
        """
        names = check(self.expression)
        lines = ["import torch", "", "x = torch.tensor([2.0], requires_grad=True)"]
        if "w" in names:
            lines.append("w = torch.tensor([3.0], requires_grad=True)")
        build = f"y = {self.expression.strip()}"
        lines.append(build)
        for number in range(1, self.passes + 1):
            if number > 1:
                lines += self._between(build, names)
            lines.append(self._call(number))
        return "\n".join(lines)

    def _between(self, build: str, names: set[str]) -> list[str]:
        lines = []
        if self.zero != "no":
            lines += [self.zero.replace("x.", f"{name}.") for name in sorted(names, reverse=True)]
        if self.between == "rebuild y":
            lines.append(build)
        elif self.between == "detach y":
            lines.append("y = y.detach()")
        return lines

    def _call(self, number: int) -> str:
        retain = self.retain == "all" or (
            self.retain == "all but the last" and number < self.passes
        )
        words = ["retain_graph=True"] if retain else []
        words += ["create_graph=True"] if self.create_graph else []
        return f"y.backward({', '.join(words)})"


def check(expression: str) -> set[str]:
    """Return which of ``x`` and ``w`` an expression uses; nothing of it is run.

    Raises
    ------
    ExpressionError
        Where it holds anything else than it may.

    Examples
    --------
    >>> sorted(check("torch.exp(x) * w"))
    ['w', 'x']
    >>> check("open('a')")
    Traceback (most recent call last):
        ...
    secondpass.teaching.snippet.ExpressionError: open(...) is not allowed here: ...
    """
    if len(expression) > LONGEST:
        raise ExpressionError(f"At most {LONGEST} characters, please; this has {len(expression)}.")
    try:
        tree = ast.parse(expression.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ExpressionError(f"{expression!r} is not an expression. {_MAY}") from None
    names = _names(tree)
    if not names:
        raise ExpressionError(f"{expression!r} has no x and no w, so there is no graph. {_MAY}")
    return names


_MAY = (
    "It may hold x, w, numbers, + - * / **, parentheses and these functions: "
    f"{', '.join(sorted(FUNCTIONS))}; such as torch.exp(x) * w or x.sin()."
)


def _names(node: ast.expr) -> set[str]:
    """Return the tensors that a part of an expression uses, or say why it may not be run."""
    match node:
        case ast.Name(id="x" | "w" as name):
            return {name}
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            if abs(number) <= 1e6:
                return set()
        case ast.BinOp(left=left, op=operator, right=right) if isinstance(operator, _OPERATORS):
            names = _names(left) | _names(right)
            # A number to the power of a number may take for ever: 9**9**9.
            if names or not isinstance(operator, ast.Pow):
                return names
        case ast.UnaryOp(op=operator, operand=operand) if isinstance(operator, _OPERATORS):
            return _names(operand)
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id="torch"), attr=name), args=[one], keywords=[]
        ) if name in FUNCTIONS:
            if names := _names(one):
                return names
        case ast.Call(func=ast.Attribute(value=value, attr=name), args=[], keywords=[]) if (
            name in FUNCTIONS
        ):
            if names := _names(value):
                return names
    text = ast.unparse(node)
    if isinstance(node, ast.Call):
        text = f"{ast.unparse(node.func)}(...)"
    raise ExpressionError(f"{text[:40]} is not allowed here: {_MAY[0].lower()}{_MAY[1:]}")
