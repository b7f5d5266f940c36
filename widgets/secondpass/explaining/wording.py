"""An explanation in words: at most twelve lines, the key line first."""

from __future__ import annotations

import itertools
import os

from secondpass.explaining import report, sources
from secondpass.explaining.explanation import short_name
from secondpass.explaining.report import Explanation, StoppedIn
from secondpass.reading.places import Place

LONGEST = 12
_WIDEST = 400
_CARRIERS = 4
_MOST_FIXES = 3


def words(explanation: Explanation) -> str:
    """Return an explanation in words.

    Parameters
    ----------
    explanation : Explanation

    Returns
    -------
    str
        Lines of text; text of the person's own is cut where it is very long.
    """
    if explanation.error is None:
        lines = _notices(explanation)
    elif _is_read(explanation):
        lines = _saved_read(explanation) + _changes(explanation)
        lines += [f"  {note}" for note in explanation.notes]
    else:
        write = {
            report.BACKWARD_TWICE: _second_time,
            report.MODIFIED: _modified,
            report.LEAF_MODIFIED: _leaf_modified,
            report.NO_GRAPH: _no_graph,
            report.COPIED: _copied,
        }[explanation.error]
        lines = write(explanation) + _changes(explanation)
        lines += [f"  {note}" for note in explanation.notes]
    return "\n".join(_cut(line) for line in lines[:LONGEST])


def _is_read(explanation: Explanation) -> bool:
    """Say whether it was no call that failed, but the reading of a saved tensor."""
    at = explanation.failed_at
    in_call = explanation.error in (report.BACKWARD_TWICE, report.MODIFIED)
    return in_call and at is not None and at.number == 0


def _saved_read(explanation: Explanation) -> list[str]:
    node, at = explanation.node, explanation.failed_at
    state = "is gone" if explanation.error == report.BACKWARD_TWICE else "is not what was saved"
    what = "" if node is None else f": `{', '.join(node.slots)}` of {_of_node(node, explanation)}"
    lines = [
        f"secondpass: a saved tensor was read that {state}{what}",
        f"  It was read on {_at(at.place if at else None, explanation)}",
    ]
    freed = explanation.freed_by
    if freed is not None:
        lines.append(f"  It was freed by call {freed.number}, {_at(freed.place, explanation)}")
    return [*lines, f"  {explanation.reached}"]


def _second_time(explanation: Explanation) -> list[str]:
    lines = [f"secondpass: {_call(explanation)} stopped{_in_node(explanation)}"]
    freed = explanation.freed_by
    if freed is not None:
        where = _at(freed.place, explanation)
        call = "an earlier call" if freed.number is None else f"call {freed.number}"
        is_one = explanation.node is not None and len(explanation.node.slots) == 1
        what = "Its saved tensor was" if is_one else "Its saved tensors were"
        lines.append(f"  {what} freed by {call}, {where}")
    if explanation.reached:
        lines.append(f"  {explanation.reached}")
    return lines + _updated(explanation)


def _modified(explanation: Explanation) -> list[str]:
    lines = [f"secondpass: {_call(explanation)} stopped{_in_node(explanation)}"]
    node = explanation.node
    slots = "" if node is None else " and ".join(node.slots)
    several = node is not None and len(node.slots) > 1
    what = f"Its saved tensor {slots} was" if slots else "A saved tensor was"
    what = f"Its saved tensors {slots} were" if several else what
    if explanation.modified_at is not None:
        lines.append(f"  {what} changed in place on {_at(explanation.modified_at, explanation)}")
    else:
        lines.append(f"  {what} changed in place after it was saved.")
    return lines + _updated(explanation)


def _leaf_modified(explanation: Explanation) -> list[str]:
    at = explanation.failed_at
    return [
        f"secondpass: a leaf that requires grad was changed in place on "
        f"{_at(at.place if at else None, explanation)}",
        "  A leaf's gradient belongs to the value it had: autograd refuses to overwrite it.",
    ]


def _no_graph(explanation: Explanation) -> list[str]:
    lines = [
        f"secondpass: {_call(explanation)} had nothing to run through: the result has no graph"
    ]
    if explanation.failed_at is not None and explanation.failed_at.place is not None:
        lines.append(f"  It was called on {_at(explanation.failed_at.place, explanation)}")
    if explanation.cut_at is not None:
        lines.append(f"  The graph was cut on {_at(explanation.cut_at, explanation)}")
    if explanation.reached:
        lines.append(f"  {explanation.reached}")
    return lines


def _copied(explanation: Explanation) -> list[str]:
    at = explanation.failed_at
    names = [f"`{one.name}`" for one in explanation.carriers]
    more = len(names) - _CARRIERS
    shown = f"{', '.join(names[:_CARRIERS])} and {more} more" if more > 0 else " and ".join(names)
    if len(names) > 1:
        said = f"{shown} are results of computations, not leaves: their graphs cannot be copied."
    else:
        said = f"{shown or 'A tensor inside it'} is the result of a computation, not a leaf: its "
        said += "graph cannot be copied."
    return [
        f"secondpass: deepcopy stopped on {_at(at.place if at else None, explanation)}",
        f"  {said}",
    ]


def _notices(explanation: Explanation) -> list[str]:
    if not explanation.notices:
        return ["secondpass: no call has failed."]
    lines = ["secondpass: nothing was raised, but"]
    for notice in explanation.notices[: LONGEST - 1]:
        where = "" if notice.line is None else f"line {notice.line}: "
        lines.append(f"  {where}{notice.why} ({notice.kind})")
    return lines


def _changes(explanation: Explanation) -> list[str]:
    lines = []
    together = 1 + len([*itertools.takewhile(lambda fix: fix.also, explanation.fix[1:])])
    for number, fix in enumerate(explanation.fix[: max(_MOST_FIXES, together + 1)]):
        word = "Change" if number == 0 else "And" if fix.also else "Or"
        where = "" if fix.place is None else _where(fix.place, explanation)
        where = f"{fix.where} {where}" if where and fix.where else where
        code = f":  {fix.code}" if fix.code else ""
        why = fix.why
        if where and code:
            lines.append(f"  {word}, {where}{code}")
            lines.append(f"    {why}.")
        else:
            lines.append(f"  {word}{', ' + where if where else ''}: {why}.")
    return lines


def _updated(explanation: Explanation) -> list[str]:
    leaves = explanation.updated_leaves
    if not leaves:
        return []
    shown = ", ".join(leaves[:4])
    more = f" and {len(leaves) - 4} more" if len(leaves) > 4 else ""
    return [f"  Before it stopped, this call had already added to {shown}{more}."]


def _call(explanation: Explanation) -> str:
    at = explanation.failed_at
    return "a call" if at is None else f"call {at.number}"


def _in_node(explanation: Explanation) -> str:
    node = explanation.node
    return "" if node is None else f" in {_of_node(node, explanation)}"


def _of_node(node: StoppedIn, explanation: Explanation) -> str:
    made = "" if node.created is None else f", made on {_at(node.created, explanation)}"
    return f"{short_name(node.name)}{made}"


def _at(place: Place | None, explanation: Explanation) -> str:
    if place is None:
        return "a line that is not known"
    code = sources.without_comment(place.code)
    where = _where(place, explanation)
    return f"{where}:  {code}" if code else where


def _where(place: Place, explanation: Explanation) -> str:
    """Return a line with its cell, or with its file where that is not the failing call's."""
    at = explanation.failed_at
    if at is None or at.place is None or place.where != f"line {place.line}":
        return place.where
    same = place.file == at.place.file
    return place.where if same else f"{os.path.basename(place.file)} {place.where}"


def _cut(line: str) -> str:
    line = line.replace("\r", " ").replace("\n", " ")
    return line if len(line) <= _WIDEST else line[: _WIDEST - 1] + "…"
