"""From facts to an explanation, and its words."""

import json

import pytest

from secondpass.explaining import advice, explanation, report, rewriting, snippets
from secondpass.explaining.facts import Failure
from secondpass.explaining.history import Heard
from secondpass.explaining.holders import Held
from secondpass.explaining.report import Carrier, Explanation, Fix, Notice, StoppedIn
from secondpass.hearing.lines import Made
from secondpass.reading.places import Place, set_source

FILE = "/home/me/facts.py"
MESSAGE = "Trying to backward through the graph a second time"


def place(line, code="loss.backward()", function="train"):
    return Place(FILE, line, code, function)


def heard(number, line, *, kind="backward", parent=None, began=0, step=0):
    return Heard(
        number=number,
        call=100 + number,
        kind=kind,
        place=place(line),
        key=0,
        retain=False,
        create=False,
        parent=parent,
        began=began,
        thread=1,
        step=step,
    )


def failed(**facts):
    first = facts.pop("first", heard(1, 9))
    second = facts.pop("second", heard(2, 9))
    made = Made(place(4, "h = cell(x, h)"), ((FILE, 4),), 1, 3)
    return Failure(
        report.BACKWARD_TWICE,
        MESSAGE,
        second,
        **{"freed_by": first, "node": "TanhBackward0", "slots": ("result",), "made": made, **facts},
    )


@pytest.mark.parametrize(
    ("facts", "family"),
    [
        ({"made_again": True, "any_younger": True}, "carried"),
        ({"any_younger": True}, "computed-once"),
        ({"any_younger": True, "second": heard(2, 12)}, "shared"),
        ({"same_root": True, "second": heard(2, 12)}, "same-root"),
        ({"second": heard(2, 12)}, "shared"),
        ({"freed_by": None}, None),
    ],
)
def test_the_family_follows_from_four_questions(facts, family):
    assert explanation.family_of(failed(**facts)) == family


def test_a_call_inside_the_failing_one_is_nested():
    outer = heard(1, 9, began=8)  # what both run through was made before it began
    assert explanation.family_of(failed(second=outer, first=heard(2, 5, parent=outer))) == "nested"
    inner = [heard(2, 9, parent=outer), heard(3, 9, parent=outer)]
    assert explanation.family_of(failed(first=inner[0], second=inner[1])) == "nested"


def test_two_calls_in_a_hook_over_what_the_hook_has_made_are_not_nested():
    outer = heard(1, 9, began=2)
    inner = [heard(2, 12, parent=outer), heard(3, 12, parent=outer)]
    assert explanation.family_of(failed(first=inner[0], second=inner[1], same_root=True)) == (
        "same-root"
    )


def test_several_calls_that_may_have_freed_it_are_all_named():
    found = explanation.explain(
        failed(freed_by=None, maybe_freed_by=(heard(1, 9), heard(2, 14)), any_younger=True)
    )
    assert found.freed_by is None
    assert any("lines 9, 14" in note for note in found.notes)


def test_a_node_made_before_listening_is_said_to_be():
    found = explanation.explain(failed(made=None, any_younger=True))
    assert found.node.created is None
    assert "before listening began" in str(found)


def test_the_report_has_the_same_keys_always_and_is_plain():
    reports = [
        Explanation().to_dict(),
        explanation.explain(failed(made_again=True, any_younger=True)).to_dict(),
    ]
    assert set(reports[0]) == set(reports[1])
    assert json.loads(json.dumps(reports)) == reports
    assert reports[1]["freed_by"] == {
        "file": FILE, "line": 9, "code": "loss.backward()", "function": "train", "call": 1,
    }  # fmt: skip


def test_the_words_are_at_most_twelve_lines_whatever_was_found():
    found = Explanation(
        error=report.BACKWARD_TWICE,
        message=MESSAGE,
        node=StoppedIn("PowBackward0", ("self",), place(3)),
        carriers=(Carrier("x" * 10_000, "f\n" * 50),),
        updated_leaves=tuple(f"p{i}.grad" for i in range(1_000)),
        fix=tuple(Fix("detach", 3, "a\nb\r" * 500, "why" * 900) for _ in range(9)),
        reached="r" * 9_000,
        notes=tuple("n" * 3_000 for _ in range(20)),
        notices=(Notice("graph-grows", 3, "w" * 4_000),),
    )
    lines = str(found).splitlines()
    assert len(lines) <= 12
    assert max(map(len, lines)) <= 400
    assert "and 996 more" in str(found)


def test_with_nothing_found_it_says_so():
    assert str(Explanation()) == "secondpass: no call has failed."


@pytest.mark.parametrize(
    ("held", "code"),
    [
        (Held("h", "train", 0, "variable"), "h = h.detach()"),
        (Held("net.memory", "train", 0, "object"), "net.memory = net.memory.detach()"),
        (Held("state[1]", "train", 0, "tuple"), "state = tuple(one.detach() for one in state)"),
        (Held("outs[0]", "train", 0, "list"), "outs[:] = [one.detach() for one in outs]"),
        (
            Held("bank['a']", "train", 0, "dict"),
            "bank.update({key: one.detach() for key, one in bank.items()})",
        ),
    ],
)
def test_a_carried_state_is_cut_off_with_its_own_name(held, code):
    failure = failed(made_again=True, any_younger=True, carriers=(held,))
    fix = explanation.explain(failure).fix
    assert (fix[-1].do, fix[-1].line, fix[-1].code) == ("detach", 9, code)
    compile(code, "fix", "exec")


def test_the_losses_are_added_with_their_own_names():
    set_source(FILE, "a = 1\nloss_a.backward()\n\nloss_b.backward()\n")
    failure = failed(first=heard(1, 2), second=heard(2, 4))
    fix = explanation.explain(failure).fix[0]
    assert (fix.do, fix.line, fix.code) == ("add", 4, "(loss_a + loss_b).backward()")


def test_after_a_step_the_losses_are_not_added():
    set_source(FILE, "a = 1\nloss_a.backward()\n\nloss_b.backward()\n")
    failure = failed(first=heard(1, 2), second=heard(2, 4, step=1), stepped=("opt",))
    assert "add" not in [one.do for one in explanation.explain(failure).fix]


def test_retaining_is_advised_against_where_it_hides_the_fault():
    assert "retain_graph" in advice.against_retaining(failed(), "carried")
    assert advice.against_retaining(failed(), "same-root") == ""


def test_code_that_cannot_be_read_gives_no_code():
    nowhere = Place("<string>", 7, "", "f")
    assert snippets.receiver(nowhere) == ""
    assert rewriting.retained(nowhere) == ""
    assert snippets.assigned_names(nowhere) == []
