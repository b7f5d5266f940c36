"""Gather the facts of a failed call while its graph is still there.

What comes out is plain data (`facts.Failure`): `explanation` draws the conclusions.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

import torch

from secondpass.explaining import changed, report
from secondpass.explaining.facts import Failure, error_of
from secondpass.explaining.history import FREED_BY, Heard, History
from secondpass.explaining.meeting import Meeting
from secondpass.explaining.old_part import OldPart, hides
from secondpass.explaining.passes import Pass, tag_number
from secondpass.hearing import calls, lines
from secondpass.reading import saved
from secondpass.reading.places import Place, is_own, place_in
from secondpass.reading.walk import name_of

_AUTOGRAD = os.path.dirname(torch.autograd.__file__) + os.sep
_CALLS = ("backward", "grad", "_engine_run_backward")


def gather(
    call: calls.Call,
    heard: Heard,
    history: History,
    stepped_since: Callable[[int], set[int]],
) -> Failure | None:
    """Find out why a call failed; None where it is not one of autograd's errors.

    Parameters
    ----------
    call : Call
        Just ended, with its error.
    heard : Heard
    history : History
    stepped_since : callable
        Gives the ids of the optimizers that made a step after a number of steps.
    """
    error = call.error
    kind = None if error is None else error_of(error)
    if error is None or kind is None:
        return None
    failed = Pass(call, heard, history, sys._getframe(1), stepped_since)
    if kind == report.BACKWARD_TWICE:
        return _second_time(failed, error)
    if kind == report.MODIFIED:
        return changed.find(failed, error)
    return Failure(kind, str(error), heard)


def _second_time(failed: Pass, error: BaseException) -> Failure:
    message = str(error)
    in_function = _function_in(error.__traceback__)
    place = _stopped(failed, bool(in_function))
    if place is None:
        return Failure(
            report.BACKWARD_TWICE,
            message,
            failed.heard,
            in_function=in_function,
            left_out=failed.left_out,
        )
    node = failed.nodes[place]
    freed_by = failed.history.get(node.metadata.get(FREED_BY))
    maybe = () if freed_by is not None else _maybe_freed_by(failed, node)
    # Of each call it is known where it began, even if its Nodes were not looked at.
    began = [one for one in maybe if one.call in failed.began_before and not one.inputs]
    if began:
        freed_by, maybe = began[0], ()
    since = freed_by or (maybe[0] if maybe else None)
    old = OldPart(failed, node, freed_by, since)
    boundaries = old.boundaries()
    meeting = Meeting(failed, node, freed_by)
    names = [*old.carriers, *(held for one in boundaries for held in one.names)]
    return Failure(
        report.BACKWARD_TWICE,
        message,
        failed.heard,
        freed_by=freed_by,
        maybe_freed_by=maybe,
        node=name_of(node),
        slots=tuple(slot.name for slot in saved.read_slots(node) if slot.state == saved.FREED),
        made=lines.made_by(node),
        path=tuple(name_of(one) for one in old.path),
        any_younger=bool(old.younger),
        same_root=since is not None and since.call in failed.began_before,
        made_again=old.made_again(node),
        carriers=old.carriers,
        boundaries=boundaries,
        old=old.lines(),
        only_added=old.only_added(),
        meeting=meeting.names,
        neck=meeting.neck,
        first_learns=meeting.others_learn,
        zeroed=meeting.zeroed,
        shared=old.shared(),
        detaching=old.detaching(names),
        late=old.late(),
        updated=failed.updated(place),
        behind=failed.behind([node, *old.entries], old.younger),
        others_learn=failed.reaches_a_leaf(old.younger),
        optimizers=failed.optimizers(),
        stepped=() if since is None else failed.stepped(since.step),
        in_function=in_function,
        left_out=failed.left_out,
        tag=tag_number(node),
    )


def _stopped(failed: Pass, in_function: bool) -> int | None:
    """Return the place, in engine order, of the Node in which the pass stopped."""
    likely: int | None = None
    unheard: int | None = None  # freed by a call that ran before listening began
    for place, node in enumerate(failed.nodes):
        custom = _is_custom(node)
        if custom and not in_function:
            continue  # it had something freed, but did not read it
        if FREED_BY in node.metadata:
            if custom == in_function and (hides(node) or saved.is_freed(node)):
                return place
        elif likely is None and saved.is_freed(node) and custom == in_function:
            number = lines.number_of(node)
            calls_since = failed.history.since(number or 0, failed.heard.thread)
            if any(one is not failed.heard and not one.retain for one in calls_since):
                likely = place
            elif unheard is None:
                unheard = place
    return likely if likely is not None else unheard


def _maybe_freed_by(failed: Pass, node: Any) -> tuple[Heard, ...]:
    """Return the calls that may have freed a Node that no call marked."""
    number = lines.number_of(node)
    if number is None:
        return ()
    return tuple(
        one
        for one in failed.history.since(number, failed.heard.thread)
        if one is not failed.heard and not one.retain and not one.tracked and not one.failed
    )


def _function_in(traceback: TracebackType | None) -> str:
    """Return the custom Function's backward in which an error was raised, or ``""``."""
    name, inside = "", False
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if code.co_name.startswith("apply") and code.co_filename.endswith("function.py"):
            inside, name = True, code.co_qualname
        elif inside and is_own(code.co_filename):
            name = code.co_qualname
        elif code.co_name == "run_backward":
            inside, name = False, ""  # the error came out of a call within the Function
        traceback = traceback.tb_next
    return name


def came_out_of_call(traceback: TracebackType | None) -> bool:
    """Say whether an error was raised in a backward or autograd.grad call."""
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if code.co_filename.startswith(_AUTOGRAD) and code.co_name in _CALLS:
            return True
        traceback = traceback.tb_next
    return False


def _is_custom(node: Any) -> bool:
    return hasattr(type(node), "save_for_backward")  # on the class: asking the Node may raise


def innermost_own(traceback: TracebackType | None) -> tuple[Place, FrameType] | None:
    """Return the innermost own line of a traceback, and its frame."""
    found = None
    while traceback is not None:
        frame = traceback.tb_frame
        if is_own(frame.f_code.co_filename):
            found = place_in(frame.f_code, traceback.tb_lineno), frame
        traceback = traceback.tb_next
    return found
