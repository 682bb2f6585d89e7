"""A change that only creates (`If-None-Match: *`), and one that only changes what exists (`If-Match: *`)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import httpx2
import pytest

CREATES: Final = {"If-None-Match": "*"}
CHANGES: Final = {"If-Match": "*"}
KINDS: Final[Mapping[str, Mapping[str, Any]]] = {
    "pools/mine": {"slots": 8},
    "variables/mine": {"value": "one"},
    "connections/mine": {"conn_type": "http"},
    "alert-rules/mine": {"kind": "run_failed", "notifier": "ops"},
}
PLACES: Final = pytest.mark.parametrize("place", KINDS)


@PLACES
async def test_what_exists_is_not_created_again(api: httpx2.AsyncClient, place: str) -> None:
    first = await api.put(place, json=KINDS[place], headers=CREATES)
    second = await api.put(place, json=KINDS[place], headers=CREATES)

    assert first.status_code == 200, first.text
    assert (second.status_code, second.json()["code"]) == (409, "refused")
    assert "'mine' exists already" in second.json()["detail"]


@PLACES
async def test_one_of_many_who_create_at_once_does(api: httpx2.AsyncClient, place: str) -> None:
    answers = await asyncio.gather(*(api.put(place, json=KINDS[place], headers=CREATES) for _ in range(6)))

    assert sorted(answer.status_code for answer in answers) == [200] + 5 * [409]


@PLACES
async def test_what_is_gone_is_not_created_by_a_change(api: httpx2.AsyncClient, place: str) -> None:
    gone = await api.put(place, json=KINDS[place], headers=CHANGES)
    await api.put(place, json=KINDS[place])
    there = await api.put(place, json=KINDS[place], headers=CHANGES)

    assert (gone.status_code, gone.json()["code"]) == (404, "not-found")
    assert "'mine'" in gone.json()["detail"]
    assert there.status_code == 200


@PLACES
@pytest.mark.parametrize("header", ["If-Match", "If-None-Match"])
async def test_other_conditions_are_refused(api: httpx2.AsyncClient, place: str, header: str) -> None:
    answer = await api.put(place, json=KINDS[place], headers={header: '"a-tag"'})

    assert answer.status_code == 422
