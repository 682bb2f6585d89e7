"""Sizes of memory as people write them."""

from __future__ import annotations

import pytest

from aiosched.sizes import in_units, size_of


@pytest.mark.parametrize(("size", "text"), [(1 << 30, "1 GiB"), (64 << 20, "64 MiB"), (1000, "1000 bytes")])
def test_sizes_are_said_in_units_and_read_again(size: int, text: str) -> None:
    assert in_units(size) == text
    assert size_of(text) == size_of(f" {text.replace(' ', '')} ") == size_of(size) == size


@pytest.mark.parametrize("given", ["2 GB", "2g", "1.5 GiB", "-1", "", "GiB", -1, 1.5, True, None, ["1 GiB"]])
def test_what_is_no_size_is_refused_with_an_example(given: object) -> None:
    with pytest.raises(ValueError, match="is no size: give bytes, or text such as '512 MiB' or '2 GiB'"):
        size_of(given)
