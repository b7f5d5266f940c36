"""Apply the first change that an explanation proposes to a script, to the letter."""

import ast
import re


def apply(source: str, fixes) -> str:
    """Return a script with a change made, and those that belong to it.

    Parameters
    ----------
    source : str
    fixes : list of Fix
        The first, and all that follow it with ``also``.
    """
    lines = source.splitlines()
    edits = []
    for fix in fixes:
        statement = _statement(source, fix.line)
        first, last = statement.lineno, statement.end_lineno
        if fix.do == "recompute" and "anew in every pass" in fix.why:
            edits += _repeated(source, fix)
        elif fix.where == "after":
            edits.append((last, last, _indented(lines, first, fix.code)))
        elif fix.do == "drop":
            edits.append((first - 1, last, _indented(lines, first, "pass")))
        elif fix.where == "before":
            edits.append((first - 1, first - 1, _indented(lines, first, fix.code)))
        elif fix.do == "add" and "both calls" in fix.why:
            edits.append((first - 1, last, _indented(lines, first, fix.code)))
            other = fix.code[1:].partition(" + ")[0]
            number = max(i for i, line in enumerate(lines) if f"{other}.backward(" in line)
            edits.append((number, number + 1, [re.sub(r"\S.*", "pass", lines[number])]))
        else:
            edits.append((first - 1, last, _indented(lines, first, fix.code)))
    # From the bottom up; what goes in at one place keeps its order.
    for _, (start, stop, new) in sorted(enumerate(edits), key=lambda e: (-e[1][0], -e[0])):
        lines[start:stop] = new
    return "\n".join(lines) + "\n"


def _indented(lines, number, code):
    blank = re.match(r"\s*", lines[number - 1])[0]
    return [blank + code]


def _statement(source, line):
    around = [
        one
        for one in ast.walk(ast.parse(source))
        if isinstance(one, ast.stmt) and one.lineno <= line <= one.end_lineno
    ]
    return min(around, key=lambda one: one.end_lineno - one.lineno)


def _repeated(source, fix):
    """Write what is to be computed anew at the head of the loop or function that is named."""
    tree = ast.parse(source)
    name = re.search(r"in `(?:\w+\.)?(\w+)`", fix.why)
    at = re.search(r"in(?:to)? the loop on line (\d+)", fix.why)
    kinds = ast.FunctionDef if name else ast.For | ast.While
    heads = [one for one in ast.walk(tree) if isinstance(one, kinds)]
    if name:
        owner = re.search(r"in `(\w+)\.", fix.why)
        scopes = [one for one in ast.walk(tree) if getattr(one, "name", "") == (owner or name)[1]]
        heads = [one for one in ast.walk(scopes[0]) if getattr(one, "name", "") == name[1]]
    else:
        heads = [one for one in heads if one.lineno == int(at[1])]
    head = heads[0].body[0]
    lines = source.splitlines()
    return [(head.lineno - 1, head.lineno - 1, _indented(lines, head.lineno, fix.code))]
