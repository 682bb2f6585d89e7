"""A change that only creates (`If-None-Match: *`), that only changes what exists (`If-Match: *`), or what was read."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
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
OTHERS: Final[Mapping[str, Sequence[Mapping[str, Any]]]] = {
    "pools/mine": [{"slots": number} for number in range(9, 15)],
    "variables/mine": [{"value": str(number)} for number in range(6)],
    "connections/mine": [{"conn_type": "http", "host": f"h{number}"} for number in range(6)],
    "alert-rules/mine": [{"kind": "run_failed", "notifier": f"ops{number}"} for number in range(6)],
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
    answer = await api.put(place, json=KINDS[place], headers={header: 'W/"a-tag"'})

    assert answer.status_code == 422


def as_read(read: httpx2.Response) -> dict[str, str]:
    return {"If-Match": f'"{read.json()["etag"]}"'}


@PLACES
async def test_one_of_many_who_have_read_the_same_changes_it(api: httpx2.AsyncClient, place: str) -> None:
    await api.put(place, json=KINDS[place])
    version = as_read(await api.get(place))

    answers = await asyncio.gather(*(api.put(place, json=body, headers=version) for body in OTHERS[place]))

    assert sorted(answer.status_code for answer in answers) == [200] + 5 * [412]
    assert {answer.json()["code"] for answer in answers if answer.status_code == 412} == {"changed-meanwhile"}


@PLACES
async def test_who_has_changed_it_since_and_when_is_said(api: httpx2.AsyncClient, place: str) -> None:
    await api.put(place, json=KINDS[place])
    version = as_read(await api.get(place))
    first = await api.put(place, json=OTHERS[place][0], headers=version)
    me = (await api.get("me")).json()["name"]

    late = await api.put(place, json=OTHERS[place][1], headers=version)
    after = await api.put(place, json=OTHERS[place][1], headers=as_read(await api.get(place)))

    assert first.status_code == after.status_code == 200
    kind = place.split("/")[0].split("-")[-1].rstrip("s")
    words = rf"The {kind} 'mine' was changed by \S*{me} at \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d UTC, since you read it"
    assert re.match(words, late.json()["detail"]), late.text


@PLACES
async def test_what_was_deleted_beneath_is_not_created_by_a_change(api: httpx2.AsyncClient, place: str) -> None:
    await api.put(place, json=KINDS[place])
    version = as_read(await api.get(place))
    await api.delete(place)

    gone = await api.put(place, json=OTHERS[place][0], headers=version)
    await api.put(place, json=OTHERS[place][0])
    another = await api.put(place, json=OTHERS[place][1], headers=version)

    assert (gone.status_code, another.status_code) == (404, 412)


@PLACES
async def test_what_others_use_or_store_again_does_not_change_the_version(api: httpx2.AsyncClient, place: str) -> None:
    await api.put(place, json=KINDS[place])
    before = await api.get(place)

    await api.put(place, json=KINDS[place], headers=as_read(before))

    assert (await api.get(place)).json()["etag"] == before.json()["etag"]


@PLACES
async def test_what_others_have_changed_since_is_not_deleted(api: httpx2.AsyncClient, place: str) -> None:
    await api.put(place, json=KINDS[place])
    version = as_read(await api.get(place))
    await api.put(place, json=OTHERS[place][0])

    late = await api.delete(place, headers=version)
    there = await api.get(place)
    after = await api.delete(place, headers=as_read(there))
    gone = await api.delete(place, headers=version)

    assert [late.status_code, there.status_code, after.status_code, gone.status_code] == [412, 200, 204, 404]
    assert "Nothing was changed: read it again" in late.json()["detail"]


@PLACES
async def test_of_those_who_delete_and_change_what_they_have_read_one_does(api: httpx2.AsyncClient, place: str) -> None:
    for body in OTHERS[place]:
        await api.put(place, json=KINDS[place])
        version = as_read(await api.get(place))

        deleted, changed = await asyncio.gather(
            api.delete(place, headers=version), api.put(place, json=body, headers=version)
        )

        assert (deleted.status_code, changed.status_code) in [(204, 404), (412, 200)]


@pytest.mark.parametrize("change", [{"role": "editor"}, {"is_disabled": True}], ids=["role", "disabled"])
async def test_a_user_whom_others_have_changed_since_is_not_deleted(
    api: httpx2.AsyncClient, change: Mapping[str, Any]
) -> None:
    await api.post("users", json={"name": "ann", "role": "viewer", "password": "long enough"})
    version = as_read(await api.get("users/ann"))
    await api.patch("users/ann", json=change)

    late = await api.delete("users/ann", headers=version)
    after = await api.delete("users/ann", headers=as_read(await api.get("users/ann")))

    assert [late.status_code, after.status_code] == [412, 204]


async def test_of_two_who_have_read_a_user_one_changes_it(api: httpx2.AsyncClient) -> None:
    await api.post("users", json={"name": "ann", "role": "viewer", "password": "long enough"})
    version = as_read(await api.get("users/ann"))

    answers = await asyncio.gather(
        *(api.patch("users/ann", json={"role": role}, headers=version) for role in ("operator", "editor"))
    )
    await api.post("users/ann/grants", json={"grant": "admin@tag:etl"})
    granted = await api.patch("users/ann", json={"role": "none"}, headers=as_read(await api.get("users/ann")))
    late = await api.patch("users/ann", json={"role": "admin"}, headers=version)
    without = await api.patch("users/ann", json={"role": "viewer"})

    assert sorted(answer.status_code for answer in answers) == [200, 412]
    assert [granted.status_code, late.status_code, without.status_code] == [200, 412, 200]
    assert "The user 'ann' was changed by " in late.json()["detail"]
