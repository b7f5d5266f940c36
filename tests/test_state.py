"""What the picture shows at a step; the Python fold and the one in the browser are the same."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from node import run_module
from sample import carried, chain, frame, node, sample
from secondpass.picture.boundary import boundary, possible
from secondpass.picture.data import complete
from secondpass.picture.fitting import cells, clean, cut
from secondpass.picture.stacks import rooms, segments
from secondpass.picture.state import Stack, failed_way, slot_state, state_at
from secondpass.picture.words import group_words, leaves_words, slot_words, sum_words
from secondpass.reading.saved import bytes_text


def test_a_slot_is_held_then_kept_then_freed():
    states = [slot_state(state_at(sample(), step), "n0", "self") for step in (0, 1, 3, 7)]
    assert [slot_words(*state) for state in states] == [
        "not made yet",
        "held",
        "kept by call 1",
        "freed by call 2",
    ]


def test_the_stack_of_a_leaf_grows_by_a_segment_per_call_and_falls_on_a_reset():
    told = [sum_words(state_at(sample(), step).leaves["l0"]) for step in (0, 4, 8, 10, 11)]
    assert told == ["None", "= 4", "4 + 4 = 8", "None", "= 0.5"]


def test_a_gradient_that_lay_there_before_is_a_segment_of_its_own():
    data = sample()
    data["start"]["leaves"]["l0"]["grad"] = "1"
    data["frames"] = [
        frame("accumulate", "", call=1, leaf="l0", before="1", incoming="4", after="5")
    ]
    assert state_at(data, 1).leaves["l0"] == Stack("5", [[None, "1"], [1, "4"]])


def test_a_gradient_changed_where_nobody_looked_begins_a_new_sum():
    data = sample()
    data["frames"][7] |= {"before": "1", "after": "5"}
    assert sum_words(state_at(data, 8).leaves["l0"]) == "1 + 4 = 5"


def test_what_travels_is_on_its_edge_in_its_frame_only():
    travelling = [state_at(sample(), step).now for step in range(6)]
    assert travelling == [[], [], ["r0"], ["l0-n0-0"], ["l0-n0-0"], []]


def test_the_place_where_a_call_stopped_stays_marked_and_so_does_the_way_there():
    data = sample()
    state = state_at(data, 13)
    assert state.marks["n0"] == "stopped"
    assert failed_way(data, state) == {"n0-r0-0"}
    data["frames"].append(frame("forward", "Line 6 ran."))
    after = state_at(data, 14)
    assert (after.marks, after.call) == ({"n0": "stopped"}, 3)


def test_the_way_to_the_stop_stays_the_one_that_the_call_went_when_something_follows():
    data = carried()  # n1 is on the way of call 2, the shorter way to another root is not
    data["roots"]["r1"] = data["roots"]["r0"] | {"name": "old", "source": "n2"}
    data["edges"].insert(0, {"id": "n2-r1-0", "source": "n2", "target": "r1"})
    data["frames"].append(frame("zero", "x.grad was reset.", leaf="l0"))
    expected = {"n2-n1-0", "n1-n0-0", "n0-r0-0"}
    assert [failed_way(data, state_at(data, step)) for step in (4, 5)] == [expected, expected]


def test_the_boundary_is_where_what_was_made_since_meets_what_was_freed():
    data = carried()
    found = [boundary(data, state_at(data, step)) for step in range(5)]
    assert found == [set(), set(), set(), set(), {"n1-n0-0"}]
    assert possible(data) == {"n1-n0-0": 1}


def test_nothing_made_since_and_no_call_known_mean_no_boundary():
    data = carried()
    data["nodes"]["n0"]["after"] = 0
    assert boundary(data, state_at(data, 4)) == set() == set(possible(data))
    data = carried()
    data["start"]["slots"]["n2.self"] = ["freed", None]
    assert boundary(data, state_at(data, 4)) == set() == set(possible(data))


def test_where_no_gradient_was_recorded_the_failed_way_is_the_shortest():
    data = carried()
    data["edges"].append({"id": "n2-n0-1", "source": "n2", "target": "n0"})
    data["frames"] = data["frames"][-1:]
    assert failed_way(data, state_at(data, 1)) == {"n2-n0-1", "n0-r0-0"}
    assert boundary(data, state_at(data, 1)) == {"n2-n0-1"}


def test_a_call_inside_another_has_its_own_marks_and_the_outer_goes_on():
    data = sample()
    data["nodes"]["n1"] = node("Mul", 2)
    data["frames"] = [
        frame("call", "", call=1, gradients={"r0": "1"}),
        frame("node", "", call=1, node="n0"),
        frame("call", "", call=2),
        frame("node", "", call=2, node="n1"),
        frame("return", "", call=2),
        frame("node", "", call=1, node="n1"),
    ]
    assert state_at(data, 4).marks == {"n1": "now"}
    assert state_at(data, 6).marks == {"r0": "done", "n0": "done", "n1": "now"}


def test_every_root_has_an_edge_whether_or_not_the_recording_names_it():
    data = sample()
    data["edges"] = data["edges"][:1]
    assert complete(data)["edges"] == sample()["edges"]
    assert complete(sample())["edges"] == sample()["edges"]


def test_a_group_tells_what_was_freed_and_what_is_held():
    data = chain(4)
    state = state_at(data, 0)
    assert group_words(data, ["n0", "n1"], state) == ("2 held · 8 B", 0.0)
    for name in ("n0", "n1"):
        data["nodes"][name]["slots"][0]["storage"] = 7
    assert group_words(data, ["n0", "n1"], state) == ("2 held · 4 B", 0.0)
    state.slots["n0.other"] = ["freed", 1]
    assert group_words(data, ["n0", "n1"], state) == ("1 freed · 1 held · 4 B", 0.5)
    assert leaves_words(["l0"], state) == "0 of 1 leaf with .grad"


def test_fifty_gradients_fit_into_a_stack():
    parts = segments(Stack("200", [[call, "4"] for call in range(1, 51)]), 170)
    assert [part[1] for part in parts] == ["47 calls", "+4", "+4", "+4"]
    assert all(left + width <= 170 for _, _, left, width, _ in parts)


def test_a_segment_shows_its_value_and_never_a_number_of_another_kind_beside_values():
    stack = Stack("17.21", [[call, "5.738"] for call in (1, 2, 3)])
    assert [part[1] for part in segments(stack, 170)] == ["5.738", "+5.738", "+5.738"]
    wide = Stack("[2]", [[1, "[0.1234, 0.5678, 0.9876]"], [2, "[0.1234, 0.5678, 0.9876]"]])
    assert [part[1] for part in segments(wide, 148)] == ["call 1", "call 2"]


def test_a_sum_has_its_result_in_any_room_and_real_minus_signs():
    stack = Stack("17.21", [[call, "5.738"] for call in (1, 2, 3)])
    told = [sum_words(stack, room) for room in (34, 26, 20)]
    assert told == [
        "5.738 + 5.738 + 5.738 = 17.21",
        "5.738 + … + 5.738 = 17.21",
        "sum of 3 = 17.21",
    ]
    assert sum_words(Stack("-2", [[1, "2"], [2, "-4"]])) == "2 − 4 = −2"


def test_a_leaf_s_box_is_as_wide_as_its_gradients_need():
    data = sample()
    assert rooms(data)["l0"] <= 148
    for at, one in enumerate(one for one in data["frames"] if one["kind"] == "accumulate"):
        one |= {"incoming": "-1234.5", "after": f"-{(at + 1) * 1234.5}"}
    data["frames"][7]["before"] = data["frames"][3]["after"]
    two = rooms(data)["l0"]
    data["frames"].insert(8, data["frames"][7] | {"before": data["frames"][7]["after"]})
    assert rooms(data)["l0"] > two > 100


TEXTS = [
    "x",
    "a\n b\x00",
    "\u202edetcartsbus",
    "損失函數",
    "e\u0301",
    "layers.0.weight",
    "🙂 norm",
    "a" * 3000,
]
STACKS = [
    Stack(None, []),
    Stack("0", []),
    Stack("8", [[1, "4"], [2, "4"]]),
    Stack("2", [[None, "4"], [2, "-2"]]),
    Stack("[1, 2]", [[1, "[0.5, 1]"], [2, "[0.5, 1]"]]),
    Stack("norm 5", [[1, "norm 3"], [12, "norm 4"]]),
    Stack("200", [[call, "4"] for call in range(1, 51)]),
    Stack("17.21", [[call, "5.738"] for call in range(1, 4)]),
    Stack("-0.05", [[call, "-1.234e-05"] for call in range(1, 3)]),
    Stack("[[1, 2, 3]]", [[call, "[[0.1234, 0.5678, 0.9876]]"] for call in range(1, 30)]),
]  # fmt: skip


BYTES = [0, 1, 999, 1000, 1023, 1250, 9_949, 9_950, 12_500, 33_280, 999_499, 999_500, 3_500_000]
BYTES += [round(size * 1.37**power) for size in (1, 5, 1_000) for power in range(60)]


def test_the_browser_folds_and_words_as_python_does():
    datas = [sample(), chain(70, lines=5, leaves=3), carried(), carried()]
    datas[3]["frames"] = datas[3]["frames"][-1:]
    datas[2]["frames"].append(frame("zero", "x.grad was reset.", leaf="l0"))
    given = json.dumps(
        {
            "datas": datas,
            "texts": TEXTS,
            "stacks": [asdict(stack) for stack in STACKS],
            "bytes": BYTES,
        }
    )
    answer = run_module(
        """
        const { stateAt } = m;
        const half = (step) => Math.floor(step / 2);
        const each = (make) => given.datas.map((data) =>
          data.frames.map((_, step) => make(data, step + 1)));
        const parts = (stack) => [60, 170].map((room) => m.segmentsOf(stack, room).map(
          (one) => [one.kind, one.words, one.left, one.width, one.title]));
        answer({
          states: each(stateAt),
          again: each((data, step) => stateAt(data, step, stateAt(data, half(step)), half(step))),
          failed: each((data, step) => [...m.failedWay(data, stateAt(data, step))].sort()),
          met: each((data, step) => [...m.boundary(data, stateAt(data, step))].sort()),
          groups: given.datas.map((data) =>
            m.groupWords(data, Object.keys(data.nodes), stateAt(data, 0))),
          texts: given.texts.map((one) => [m.clean(one), m.cells(m.clean(one)), m.cut(one, 9)]),
          sums: given.stacks.map((stack) => [34, 26, 12].map((room) => m.sumWords(stack, room))),
          segments: given.stacks.map(parts),
          bytes: given.bytes.map(m.bytesText),
        });
        """,
        given,
    )
    parts = [answer[name] for name in ("states", "again", "failed", "met")]
    for data, states, again, failed, met in zip(datas, *parts, strict=True):
        expected = [state_at(data, step + 1) for step in range(len(data["frames"]))]
        assert states == again == json.loads(json.dumps([asdict(state) for state in expected]))
        assert failed == [sorted(failed_way(data, state)) for state in expected]
        assert met == [sorted(boundary(data, state)) for state in expected]
    assert [(one["words"], one["freed"]) for one in answer["groups"]] == [
        group_words(data, list(data["nodes"]), state_at(data, 0)) for data in datas
    ]
    assert answer["texts"] == [[clean(t), cells(clean(t)), cut(t, 9)] for t in TEXTS]
    assert answer["sums"] == [[sum_words(stack, room) for room in (34, 26, 12)] for stack in STACKS]
    assert answer["segments"] == [
        [[list(part) for part in segments(stack, room)] for room in (60, 170)] for stack in STACKS
    ]
    assert answer["bytes"] == [bytes_text(size) for size in BYTES]


@pytest.mark.parametrize("step", range(14))
def test_a_state_is_the_same_however_often_it_is_asked_for(step):
    data = sample()
    assert state_at(data, step) == state_at(data, step)
    assert data == sample()
