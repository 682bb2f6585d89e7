"""The processes of a run share its tests without cutting a file in two."""

from __future__ import annotations

import pytest

from tests.sharing import whole_files

TESTS = ["a.py::one", "b.py::one", "b.py::two[x::y]", "b.py::three", "c.py::one"]


@pytest.mark.parametrize(("count", "handed_over"), [(0, 0), (1, 1), (2, 4), (3, 4), (4, 4), (5, 5)])
def test_what_is_handed_over_ends_with_a_file(count: int, handed_over: int) -> None:
    assert whole_files(TESTS, count) == handed_over
