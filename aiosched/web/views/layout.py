"""The layout of a DAG's graph: layers from left to right, groups as nested boxes, edges as lines.

Pure. Each container (the DAG, and every unfolded group) is laid out by itself: its children are put into layers by the
longest path, ordered within them so that few edges cross, and moved towards their neighbours. A group then is one box
of its parent, as large as its content. An edge that skips layers runs through points between the boxes of those layers.
A folded group is one box and has the edges of all its members.

Sizes are CSS pixels. 1,000 tasks take a fraction of a second.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

NODE_HEIGHT: Final = 34.0
_LAYER_GAP: Final = 56.0
_NODE_GAP: Final = 14.0
_PADDING: Final = 16.0
_HEADER: Final = 26.0  # space for the name of an unfolded group
_CHARACTER: Final = 7.4
_NARROWEST, _WIDEST = 90.0, 280.0
_SWEEPS: Final = 6
_MOST_POINTS: Final = 6_000  # routed points of edges that skip layers; with more, such edges are straight lines


@dataclass(frozen=True, slots=True)
class Box:
    """A task or a group with its position. `parent` is the unfolded group around it, None for the DAG."""

    id: str
    is_group: bool
    is_folded: bool
    parent: str | None
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Line:
    """An edge between two boxes, from the right side of one to the left side of the other."""

    source: str
    target: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """All boxes (groups before their members), all lines, and the total size."""

    boxes: tuple[Box, ...]
    lines: tuple[Line, ...]
    width: float
    height: float


@dataclass(slots=True)
class _Content:
    """A container's children, their positions in it, and the points of its edges."""

    places: dict[str, tuple[float, float]] = field(default_factory=dict)
    points: dict[tuple[str, str], list[tuple[float, float]]] = field(default_factory=dict)
    width: float = 0.0
    height: float = 0.0


def lay_out(
    tasks: Mapping[str, str | None],
    edges: Iterable[tuple[str, str]],
    groups: Mapping[str, str | None],
    *,
    labels: Mapping[str, str] | None = None,
    folded: Collection[str] = (),
) -> Layout:
    """Lay out `tasks` (id to group) and `groups` (id to parent).

    `labels` are the texts of boxes, by default their ids. `edges` are pairs of task ids without cycles. Groups that are
    `folded`, or inside one that is, hide their members.
    """
    labels = labels or {}
    hidden_in = _hiding(groups, frozenset(folded))
    parent = {group: groups[group] for group in groups if hidden_in[group] in (None, group)}
    shown = {task: task for task in tasks}
    for task, group in tasks.items():
        if group is not None and hidden_in[group] is not None:
            shown[task] = hidden_in[group] or task
        else:
            parent[task] = group
    pairs = dict.fromkeys((shown[a], shown[b]) for a, b in edges if shown[a] != shown[b])
    children: dict[str | None, list[str]] = defaultdict(list)
    for each in parent:
        children[parent[each]].append(each)
    open_groups = [group for group in groups if group in parent and group not in folded]
    order = sorted(open_groups, key=lambda group: -_depth(group, groups))  # innermost first
    lifted = _lift(pairs, parent)
    sizes = {each: (_width(labels.get(each, each)), NODE_HEIGHT) for each in parent if each not in open_groups}
    contents: dict[str | None, _Content] = {}
    for group in order:
        content = contents[group] = _arrange(children[group], lifted.get(group, {}), sizes, top=_HEADER)
        sizes[group] = (max(content.width, _width(labels.get(group, group))), content.height)
    contents[None] = _arrange(children[None], lifted.get(None, {}), sizes, top=0.0)
    boxes = _absolute(contents, children, sizes, parent, frozenset(groups), frozenset(open_groups))
    return Layout(
        tuple(boxes.values()),
        tuple(_lines(pairs, boxes, parent, contents)),
        contents[None].width,
        contents[None].height,
    )


def _hiding(groups: Mapping[str, str | None], folded: frozenset[str]) -> dict[str, str | None]:
    """For each group, the outermost folded group that hides it, which can be the group itself."""
    found: dict[str, str | None] = {}
    for group in groups:
        chain, each = [], group
        while each is not None and each in groups:
            chain.append(each)
            each = groups[each]  # type: ignore[assignment]
        found[group] = next((g for g in reversed(chain) if g in folded), None)
    return found


def _depth(group: str, groups: Mapping[str, str | None]) -> int:
    depth, each = 0, groups[group]
    while each is not None:
        depth, each = depth + 1, groups.get(each)
    return depth


def _ancestors(each: str, parent: Mapping[str, str | None]) -> list[str | None]:
    """The containers around a box, innermost first, ending with the DAG."""
    found: list[str | None] = []
    around = parent[each]
    while around is not None:
        found.append(around)
        around = parent[around]
    return [*found, None]


def _lift(
    pairs: Iterable[tuple[str, str]], parent: Mapping[str, str | None]
) -> dict[str | None, dict[tuple[str, str], None]]:
    """The edges between the children of each container: each edge of tasks belongs to their lowest common container."""
    lifted: dict[str | None, dict[tuple[str, str], None]] = defaultdict(dict)
    around = {each: _ancestors(each, parent) for each in parent}
    for source, target in pairs:
        others = set(around[target])
        common = next(each for each in around[source] if each in others)
        a, b = _child_in(common, source, around[source]), _child_in(common, target, around[target])
        if a != b:
            lifted[common][a, b] = None
    return lifted


def _child_in(container: str | None, each: str, around: Sequence[str | None]) -> str:
    position = around.index(container)
    inner = around[position - 1] if position else each
    assert inner is not None
    return inner


def _width(label: str) -> float:
    return min(max(len(label) * _CHARACTER + 44.0, _NARROWEST), _WIDEST)


# ---- one container ----


def _arrange(
    members: Sequence[str],
    edges: Iterable[tuple[str, str]],
    sizes: Mapping[str, tuple[float, float]],
    *,
    top: float,
) -> _Content:
    if not members:
        return _Content(width=_NARROWEST, height=top + 2 * _PADDING)
    forward = _without_cycles(members, edges)
    layer = _layers(members, forward)
    chains = _chains(forward, layer)
    columns: list[list[str]] = [[] for _ in range(max(layer.values()) + 1)]
    for each in members:
        columns[layer[each]].append(each)
    links: list[tuple[str, str]] = []
    for (source, target), between in chains.items():
        for offset, dummy in enumerate(between, start=1):
            columns[layer[source] + offset].append(dummy)
        links += zip((source, *between), (*between, target), strict=True)
    before, after = _neighbours(links)
    _order(columns, before, after)
    heights = {each: sizes[each][1] if each in sizes else 2.0 for column in columns for each in column}
    centres = _settle(columns, heights, before, after)
    content = _Content()
    lowest = min(centres[each] - heights[each] / 2 for column in columns for each in column)
    shift, x = top + _PADDING - lowest, _PADDING
    middles: dict[str, tuple[float, float]] = {}
    for column in columns:
        width = max((sizes[each][0] for each in column if each in sizes), default=_NARROWEST)
        for each in column:
            y = centres[each] + shift
            if each in sizes:
                content.places[each] = (x, y - heights[each] / 2)
            else:
                middles[each] = (x + width / 2, y)
        x += width + _LAYER_GAP
    content.points = {pair: [middles[dummy] for dummy in between] for pair, between in chains.items()}
    content.width = x - _LAYER_GAP + _PADDING
    highest = max(centres[each] + heights[each] / 2 for column in columns for each in column)
    content.height = highest + shift + _PADDING
    return content


def _without_cycles(members: Sequence[str], edges: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The edges without those that close a cycle: tasks of two groups can depend on each other in both directions."""
    after: dict[str, list[str]] = defaultdict(list)
    for source, target in edges:
        after[source].append(target)
    state: dict[str, int] = {}  # 1: in progress, 2: done
    kept: list[tuple[str, str]] = []
    for root in members:
        if root in state:
            continue
        state[root] = 1
        way = [(root, iter(after[root]))]
        while way:
            each, rest = way[-1]
            following = next(rest, None)
            if following is None:
                state[each] = 2
                way.pop()
            elif state.get(following) != 1:
                kept.append((each, following))
                if following not in state:
                    state[following] = 1
                    way.append((following, iter(after[following])))
    return kept


def _layers(members: Sequence[str], edges: Sequence[tuple[str, str]]) -> dict[str, int]:
    """The layer of each child by the longest path to it; then sources move right, next to what depends on them."""
    before, after = _neighbours(edges)
    missing = {each: len(before[each]) for each in members}
    ready = [each for each in members if not missing[each]]
    layer = dict.fromkeys(ready, 0)
    order: list[str] = []
    while ready:
        nearest = ready.pop()
        order.append(nearest)
        for target in after[nearest]:
            layer[target] = max(layer.get(target, 0), layer[nearest] + 1)
            missing[target] -= 1
            if not missing[target]:
                ready.append(target)
    for each in reversed(order):
        if after[each] and not before[each]:
            layer[each] = min(layer[target] for target in after[each]) - 1
    return layer


def _chains(edges: Sequence[tuple[str, str]], layer: Mapping[str, int]) -> dict[tuple[str, str], tuple[str, ...]]:
    """For each edge the points between its ends, one for each skipped layer; no points at all if there were too
    many."""
    skipped = sum(layer[target] - layer[source] - 1 for source, target in edges)
    if skipped > _MOST_POINTS:
        return {}
    return {
        (source, target): tuple(f"{source}\0{target}\0{i}" for i in range(layer[source] + 1, layer[target]))
        for source, target in edges
    }


def _neighbours(links: Iterable[tuple[str, str]]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    before: dict[str, list[str]] = defaultdict(list)
    after: dict[str, list[str]] = defaultdict(list)
    for source, target in links:
        after[source].append(target)
        before[target].append(source)
    return before, after


def _order(columns: list[list[str]], before: Mapping[str, list[str]], after: Mapping[str, list[str]]) -> None:
    """Sort each column by the mean position of its neighbours, alternating left to right and right to left."""
    for sweep in range(_SWEEPS):
        forward = sweep % 2 == 0
        neighbours = before if forward else after
        indexes = range(1, len(columns)) if forward else range(len(columns) - 2, -1, -1)
        for index in indexes:
            other = columns[index - 1 if forward else index + 1]
            position = {each: place / max(len(other) - 1, 1) for place, each in enumerate(other)}
            own = {each: place / max(len(columns[index]) - 1, 1) for place, each in enumerate(columns[index])}
            columns[index].sort(key=lambda each: _mean((position[n] for n in neighbours.get(each, ())), own[each]))


def _settle(
    columns: Sequence[Sequence[str]],
    heights: Mapping[str, float],
    before: Mapping[str, list[str]],
    after: Mapping[str, list[str]],
) -> dict[str, float]:
    """The centre of each child: near the mean of its neighbours, in order, without overlaps."""
    centres: dict[str, float] = {}
    for column in columns:
        total = sum(heights[each] for each in column) + _NODE_GAP * (len(column) - 1)
        y = -total / 2
        for each in column:
            centres[each] = y + heights[each] / 2
            y += heights[each] + _NODE_GAP
    for sweep in range(_SWEEPS):
        forward = sweep % 2 == 0
        neighbours = before if forward else after
        for column in columns if forward else reversed(columns):
            wanted = [_mean((centres[n] for n in neighbours.get(each, ())), centres[each]) for each in column]
            centres.update(zip(column, _apart(column, wanted, heights), strict=True))
    return centres


def _apart(column: Sequence[str], wanted: Sequence[float], heights: Mapping[str, float]) -> list[float]:
    """Ordered centres with space between them, as near as possible to the wanted ones."""
    blocks: list[tuple[float, float, int]] = []  # (start of the block, its height, members), merged while they touch
    for each, wanted_centre in zip(column, wanted, strict=True):
        height = heights[each] + _NODE_GAP
        start, size, count = wanted_centre - height / 2, height, 1
        while blocks and blocks[-1][0] + blocks[-1][1] > start:
            other, other_size, other_count = blocks.pop()
            start = (other * other_count + (start - other_size) * count) / (other_count + count)
            size, count = size + other_size, count + other_count
        blocks.append((start, size, count))
    found: list[float] = []
    members = iter(column)
    for start, _, count in blocks:
        y = start
        for _ in range(count):
            height = heights[next(members)] + _NODE_GAP
            found.append(y + height / 2)
            y += height
    return found


def _mean(values: Iterable[float], default: float) -> float:
    found = list(values)
    return sum(found) / len(found) if found else default


# ---- the whole ----


def _absolute(
    contents: Mapping[str | None, _Content],
    children: Mapping[str | None, Sequence[str]],
    sizes: Mapping[str, tuple[float, float]],
    parent: Mapping[str, str | None],
    groups: frozenset[str],
    open_groups: frozenset[str],
) -> dict[str, Box]:
    boxes: dict[str, Box] = {}
    waiting: list[tuple[str | None, float, float]] = [(None, 0.0, 0.0)]
    while waiting:
        container, left, top = waiting.pop()
        for each in children.get(container, ()):
            x, y = contents[container].places[each]
            width, height = sizes[each]
            is_group, is_open = each in groups, each in open_groups
            boxes[each] = Box(each, is_group, is_group and not is_open, parent[each], left + x, top + y, width, height)
            if is_open:
                waiting.append((each, left + x, top + y))
    return boxes


def _lines(
    pairs: Iterable[tuple[str, str]],
    boxes: Mapping[str, Box],
    parent: Mapping[str, str | None],
    contents: Mapping[str | None, _Content],
) -> Iterable[Line]:
    around = {each: _ancestors(each, parent) for each in parent}
    for source, target in pairs:
        one, other = boxes[source], boxes[target]
        others = set(around[target])
        common = next(each for each in around[source] if each in others)
        inner = (_child_in(common, source, around[source]), _child_in(common, target, around[target]))
        left, top = (0.0, 0.0) if common is None else (boxes[common].x, boxes[common].y)
        between = [(left + x, top + y) for x, y in contents[common].points.get(inner, ())]
        start = (one.x + one.width, one.y + one.height / 2)
        yield Line(source, target, (start, *between, (other.x, other.y + other.height / 2)))
