"""Left and right in the picture: the older result left, the newer right."""

from __future__ import annotations

import pytest

from sample import carried, chain
from secondpass.picture.boxes import size_of
from secondpass.picture.drawing import Drawing, draw, plan
from secondpass.picture.layout import Box


def three_results(order):
    data = chain(3)
    data["nodes"] = {f"n{at}": data["nodes"][f"n{at}"] for at in order}
    data["roots"] = {
        f"r{at}": {"name": "loss", "type": "f32", "value": "12", "source": f"n{at}"}
        for at in range(3)
    }
    ways = [("l0", f"n{at}") for at in order]
    ways += [(f"n{at}", f"r{at}") for at in order]
    data["edges"] = [{"id": f"{a}-{b}-0", "source": a, "target": b} for a, b in ways]
    return data


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (2, 0, 1)])
def test_the_newest_of_several_results_stands_right_of_the_oldest(order):
    places = plan(three_results(order)).layout.boxes
    assert places["r0"][0] < places["r2"][0]


def test_results_of_one_name_are_told_apart():
    data = three_results((0, 1, 2))
    data["roots"]["r0"]["value"] = "4"
    svg = draw(data, plan(data))
    assert all(f"loss, {which} " in svg for which in ("1st", "2nd", "3rd"))
    assert svg.count(">12<") == 2 and svg.count(">4<") == 1  # beside its value
    data["roots"]["r1"]["name"] = data["roots"]["r2"]["name"] = "other"
    assert "loss, " not in draw(data, plan(data))


def test_a_mirrored_layout_has_its_lines_at_its_boxes_and_twice_mirrored_is_the_same():
    data = carried()
    drawing = plan(data)
    boxes = [Box(name, *size_of(name, data, drawing.view)) for name in drawing.view.boxes]
    wide = {box.id: box.width for box in boxes}
    mirrored = drawing.layout.mirrored(boxes)
    assert mirrored != drawing.layout == mirrored.mirrored(boxes)
    for name, curve in mirrored.curves.items():
        source, target, _ = name.split("--")
        for box, (x, _) in ((source, curve[0]), (target, curve[-1])):
            assert mirrored.boxes[box][0] <= x <= mirrored.boxes[box][0] + wide[box]
    svg = draw(data, Drawing(drawing.view, mirrored, drawing.borders))
    assert svg.count('class="end"') == 2  # the words of the border, now left of their edge
