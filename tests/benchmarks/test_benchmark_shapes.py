"""The DAGs that the benchmarks run."""

from __future__ import annotations

import ast
from datetime import UTC, datetime

import pytest

from benchmarks.shapes import MAX_FILES, SHAPES, binary_tree, dag_files, fan, linear

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("name", "dags", "tasks", "edges"),
    [
        ("linear-100x10", 100, 10, 9),
        ("linear-10x100", 10, 100, 99),
        ("tree-100x10", 100, 10, 9),
        ("parallel-500x10", 500, 10, 0),
        ("parallel-5000x10", 5000, 10, 0),
        ("fan-1000", 1, 1002, 2000),
        ("chain-200", 1, 200, 199),
        ("chain-1000", 1, 1000, 999),
        ("pool-5", 100, 100, 0),
        ("herd-20000", 20_000, 1, 0),
    ],
)
def test_a_shape_has_the_size_that_its_name_says(name: str, dags: int, tasks: int, edges: int) -> None:
    shape = SHAPES[name]

    assert (shape.dags, shape.tasks, len(shape.edges)) == (dags, tasks, edges)
    assert shape.total == dags * tasks
    assert len(set(shape.dag_ids())) == dags


def test_edges_lead_from_earlier_tasks_to_later_ones() -> None:
    assert linear(4) == ((0, 1), (1, 2), (2, 3))
    assert binary_tree(6) == ((0, 1), (0, 2), (1, 3), (1, 4), (2, 5))
    assert fan(2) == ((0, 1), (0, 2), (1, 3), (2, 3))


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_the_files_define_every_dag_exactly_once(name: str) -> None:
    shape = SHAPES[name]

    files = list(dag_files(shape, kind="sync", start=START, records="/tmp/records"))

    assert len(files) == len({file for file, _ in files}) == min(shape.dags, MAX_FILES)
    assert [dag_id for _, text in files for dag_id in _ids(text)] == shape.dag_ids()


@pytest.mark.parametrize(("kind", "node"), [("async", ast.AsyncFunctionDef), ("sync", ast.FunctionDef)])
def test_the_bodies_are_of_the_kind_that_was_asked_for(kind: str, node: type[ast.AST]) -> None:
    [(_, text)] = dag_files(SHAPES["chain-200"], kind=kind, start=START, records="/tmp/records")  # type: ignore[arg-type]

    [body] = [found for found in ast.walk(ast.parse(text)) if getattr(found, "name", None) == "body"]

    assert isinstance(body, node)


def _ids(text: str) -> list[str]:
    """The ids over which the file's loop goes."""
    [loop] = [node for node in ast.parse(text).body if isinstance(node, ast.For)]
    ids = ast.literal_eval(loop.iter)
    assert isinstance(ids, list)
    return ids
