"""Where the boxes of a graph stand."""

from __future__ import annotations

from itertools import combinations, pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from aiosched.web.views.layout import Box, Layout, lay_out
from tests.line_counts import lines_of


def touch(one: Box, other: Box) -> bool:
    return (
        one.x < other.x + other.width
        and other.x < one.x + one.width
        and one.y < other.y + other.height
        and other.y < one.y + one.height
    )


def holds(outer: Box, inner: Box) -> bool:
    return (
        outer.x <= inner.x
        and outer.y <= inner.y
        and inner.x + inner.width <= outer.x + outer.width + 1e-6
        and inner.y + inner.height <= outer.y + outer.height + 1e-6
    )


def places(layout: Layout) -> dict[str, Box]:
    return {box.id: box for box in layout.boxes}


def test_a_chain_goes_from_left_to_right_on_one_line() -> None:
    ids = [f"task_{i}" for i in range(5)]

    boxes = places(lay_out(dict.fromkeys(ids), pairwise(ids), {}))

    assert all(boxes[a].x + boxes[a].width < boxes[b].x for a, b in pairwise(ids))
    assert len({round(box.y) for box in boxes.values()}) == 1


def test_a_diamond_is_symmetric() -> None:
    boxes = places(lay_out(dict.fromkeys("abcd"), [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")], {}))

    assert boxes["b"].x == boxes["c"].x
    assert boxes["b"].y != boxes["c"].y
    assert abs(boxes["a"].y - boxes["d"].y) < 1
    assert abs((boxes["b"].y + boxes["c"].y) / 2 - boxes["a"].y) < 1


def test_an_edge_that_skips_a_layer_runs_between_the_boxes() -> None:
    layout = lay_out(dict.fromkeys("abc"), [("a", "b"), ("b", "c"), ("a", "c")], {})

    long = next(line for line in layout.lines if (line.source, line.target) == ("a", "c"))
    middle = places(layout)["b"]

    assert len(long.points) == 3
    assert not middle.y <= long.points[1][1] <= middle.y + middle.height


def test_a_group_is_a_box_around_its_tasks_and_a_folded_one_stands_for_them() -> None:
    tasks = {"start": None, "g.one": "g", "g.two": "g", "g.h.three": "g.h", "end": None}
    edges = [("start", "g.one"), ("g.one", "g.two"), ("g.two", "g.h.three"), ("g.h.three", "end")]
    groups = {"g": None, "g.h": "g"}

    unfolded, folded = lay_out(tasks, edges, groups), lay_out(tasks, edges, groups, folded={"g"})

    boxes = places(unfolded)
    assert holds(boxes["g"], boxes["g.h"])
    assert holds(boxes["g.h"], boxes["g.h.three"])
    assert set(places(folded)) == {"start", "g", "end"}
    assert places(folded)["g"].is_folded
    assert [(line.source, line.target) for line in folded.lines] == [("start", "g"), ("g", "end")]


def test_groups_that_need_each_other_both_ways_are_placed_all_the_same() -> None:
    tasks: dict[str, str | None] = {"a.1": "a", "a.2": "a", "b.1": "b"}

    layout = lay_out(tasks, [("a.1", "b.1"), ("b.1", "a.2")], {"a": None, "b": None})

    assert len(layout.lines) == 2
    assert not touch(places(layout)["a"], places(layout)["b"])


def test_nothing_has_a_size() -> None:
    assert lay_out({}, [], {}).boxes == ()


@st.composite
def graphs(draw: st.DrawFn) -> tuple[dict[str, str | None], list[tuple[str, str]], dict[str, str | None], set[str]]:
    count = draw(st.integers(1, 4))
    groups: dict[str, str | None] = {}
    for i in range(count):
        groups[f"g{i}"] = draw(st.sampled_from([None, *groups]))
    tasks = {f"t{i}": draw(st.sampled_from([None, *groups])) for i in range(draw(st.integers(1, 14)))}
    ids = list(tasks)
    pairs = [(a, b) for a, b in combinations(ids, 2)]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=30)) if pairs else []
    return tasks, edges, groups, draw(st.sets(st.sampled_from(list(groups))))


@given(graphs())
@settings(max_examples=200, deadline=None)
def test_boxes_of_one_container_never_touch_and_stand_inside_of_it(
    graph: tuple[dict[str, str | None], list[tuple[str, str]], dict[str, str | None], set[str]],
) -> None:
    tasks, edges, groups, folded = graph

    layout = lay_out(tasks, edges, groups, folded=folded)

    boxes = places(layout)
    by_parent: dict[str | None, list[Box]] = {}
    for box in layout.boxes:
        by_parent.setdefault(box.parent, []).append(box)
        assert box.x >= 0
        assert box.x + box.width <= layout.width
        assert box.parent is None or holds(boxes[box.parent], box)
    for siblings in by_parent.values():
        assert not any(touch(one, other) for one, other in combinations(siblings, 2))
    for line in layout.lines:
        assert line.points[0][0] == boxes[line.source].x + boxes[line.source].width
        assert line.points[-1][0] == boxes[line.target].x


def test_the_work_for_a_graph_grows_little_faster_than_the_graph() -> None:
    """1,000 tasks take a fraction of a second."""

    def work(size: int) -> int:
        ids = [f"task_{i}" for i in range(size)]
        edges = [(ids[i], ids[j]) for i in range(size) for j in (i + 1, i + 3, i + 10) if j < size and i % 10 < 8]
        return lines_of(lambda: lay_out(dict.fromkeys(ids), edges, {}))

    assert work(400) < 6 * work(100)
