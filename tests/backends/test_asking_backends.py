"""Backends of secrets asked in turn: order, what is kept, and what happens when one fails or hangs."""

from __future__ import annotations

import asyncio
import re
import threading
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosched.backends.asking import AskedBackend, Backends, FoundSecret
from aiosched.backends.backend import Kind, SecretBackend
from aiosched.clock import FakeClock
from aiosched.core.values.secret_names import EVERYTHING, Reader, between, names_to_ask
from aiosched.errors import SecretBackendError

CLOCK_STARTS = datetime(2026, 1, 1, tzinfo=UTC)


class Scripted:
    """A backend with some secrets that counts what it was asked. While `open` is not set, it hangs."""

    def __init__(self, **found: str) -> None:
        self.found: dict[str, Any] = dict(found)
        self.asked: list[tuple[str, str]] = []
        self.open = threading.Event()
        self.open.set()

    def get(self, kind: Kind, name: str) -> str | None:
        self.asked.append((kind, name))
        self.open.wait(60)
        answer = self.found.get(name)
        if isinstance(answer, Exception):
            raise answer
        return answer


def asked(backend: SecretBackend, name: str = "one", clock: FakeClock | None = None, **options: Any) -> AskedBackend:
    return AskedBackend(name, lambda: backend, clock=clock or FakeClock(CLOCK_STARTS), **options)


async def test_the_first_backend_that_has_a_name_decides() -> None:
    backends = Backends([asked(Scripted(a="1"), "first"), asked(Scripted(a="2", b="3"), "second")])

    assert await backends.find("variable", "a") == FoundSecret("1", "first")
    assert await backends.find("variable", "b") == FoundSecret("3", "second")
    assert await backends.find("variable", "c") is None


async def test_values_and_absence_are_kept_for_a_while() -> None:
    backend, clock = Scripted(a="1"), FakeClock(CLOCK_STARTS)
    backends = Backends([asked(backend, clock=clock, cache_seconds=60)])

    for _ in range(3):
        await backends.find("variable", "a")
        await backends.find("variable", "b")
    backend.found = {"a": "new", "b": "there now"}
    clock.advance(59)
    before = [await backends.find("variable", name) for name in ("a", "b")]
    clock.advance(2)
    after = [await backends.find("variable", name) for name in ("a", "b")]

    assert before == [FoundSecret("1", "one"), None]
    assert after == [FoundSecret("new", "one"), FoundSecret("there now", "one")]
    assert len(backend.asked) == 4


async def test_a_variable_and_a_connection_of_one_name_are_two() -> None:
    backend = Scripted(a="1")
    backends = Backends([asked(backend)])

    await backends.find("variable", "a")
    await backends.find("connection", "a")

    assert backend.asked == [("variable", "a"), ("connection", "a")]


async def test_without_a_time_limit_everything_is_asked_each_time() -> None:
    backend = Scripted(a="1")
    backends = Backends([asked(backend, cache_seconds=0)])

    for _ in range(2):
        await backends.find("variable", "a")

    assert len(backend.asked) == 2


async def test_look_ups_of_one_name_at_the_same_time_are_one_question() -> None:
    backend = Scripted(a="1")
    backend.open.clear()
    backends = Backends([asked(backend)])

    looking = [asyncio.create_task(backends.find("variable", "a")) for _ in range(50)]
    await asyncio.sleep(0)
    backend.open.set()

    assert set(await asyncio.gather(*looking)) == {FoundSecret("1", "one")}
    assert backend.asked == [("variable", "a")]


async def test_who_gives_up_does_not_take_the_answer_from_the_others() -> None:
    backend = Scripted(a="1")
    backend.open.clear()
    backends = Backends([asked(backend)])
    hasty, patient = (asyncio.create_task(backends.find("variable", "a")) for _ in range(2))
    await asyncio.sleep(0)

    hasty.cancel()
    await asyncio.wait([hasty])
    backend.open.set()

    assert await patient == FoundSecret("1", "one")


async def test_a_backend_that_hangs_is_an_error_with_a_name_and_holds_up_nobody_else() -> None:
    backend = Scripted(a="1")
    backend.open.clear()
    backends = Backends([asked(backend, "vault", timeout=0.05), asked(Scripted(a="2"), "second")])

    with pytest.raises(SecretBackendError, match=r"backend vault .*variable 'a'.*within 0.05 s.*secrets\.timeout"):
        await backends.find("variable", "a")
    backend.open.set()


async def test_a_backend_with_many_hanging_calls_refuses_further_ones_and_recovers() -> None:
    backend, clock = Scripted(), FakeClock(CLOCK_STARTS)
    backend.open.clear()
    one = asked(backend, timeout=0.05, clock=clock)

    results = await asyncio.gather(*(one.find("variable", f"v{n}", None) for n in range(1100)), return_exceptions=True)
    running = len(backend.asked)
    backend.open.set()
    clock.advance(5)
    recovered = await asked(backend).find("variable", "v1", None)

    assert {type(result) for result in results} == {SecretBackendError}
    assert "1,000 earlier calls still wait for it" in str(results[-1])
    assert running <= 8
    assert recovered is None


async def test_a_failing_backend_hides_what_those_after_it_have() -> None:
    failing = Scripted()
    failing.found = {"a": ConnectionError("refused")}
    backends = Backends([asked(failing, "vault"), asked(Scripted(a="2"), "second")])

    with pytest.raises(
        SecretBackendError, match=r"backend vault .*variable 'a' and has failed: ConnectionError: refused"
    ):
        await backends.find("variable", "a")


async def test_a_failure_is_kept_for_a_second_only() -> None:
    backend, clock = Scripted(), FakeClock(CLOCK_STARTS)
    backend.found = {"a": ConnectionError("refused")}
    backends = Backends([asked(backend, clock=clock)])
    for _ in range(3):
        with pytest.raises(SecretBackendError):
            await backends.find("variable", "a")

    backend.found = {"a": "1"}
    clock.advance(1.1)

    assert await backends.find("variable", "a") == FoundSecret("1", "one")
    assert len(backend.asked) == 2


async def test_a_backend_that_cannot_be_opened_is_opened_again_later() -> None:
    tries = iter([ConnectionError("no network"), None])

    def opened() -> SecretBackend:
        if (error := next(tries)) is not None:
            raise error
        return Scripted(a="1")

    one = AskedBackend("one", opened, cache_seconds=0)

    with pytest.raises(SecretBackendError, match="no network"):
        await one.find("variable", "a", None)
    assert await one.find("variable", "a", None) == "1"


async def test_what_is_no_text_is_an_error() -> None:
    backend = Scripted()
    backend.found = {"a": 5}

    with pytest.raises(SecretBackendError, match="has returned int"):
        await Backends([asked(backend)]).find("variable", "a")


async def test_a_name_that_leads_elsewhere_is_never_asked_for() -> None:
    backend = Scripted()
    backends = Backends([asked(backend)])

    for name in ("../x", "/etc/passwd", "a/../b", "a//b", "", "a\nb", "a b", "x" * 251, ".."):
        assert await backends.find("variable", name) is None

    assert backend.asked == []


# ---- teams ----


async def test_a_team_has_its_own_names_before_those_of_everybody() -> None:
    backend = Scripted(**{"sales/shop": "own", "shop": "shared", "common": "all"})
    backends = Backends([asked(backend, team_names="{team}/{name}")])

    assert await backends.find("variable", "shop", team="sales") == FoundSecret("own", "one")
    assert await backends.find("variable", "shop", team="hr") == FoundSecret("shared", "one")
    assert await backends.find("variable", "shop") == FoundSecret("shared", "one")
    assert await backends.find("variable", "common", team="sales") == FoundSecret("all", "one")


@pytest.mark.parametrize("team", ["hr", None])
async def test_writing_out_the_name_of_another_team_finds_nothing(team: str | None) -> None:
    backends = Backends([asked(Scripted(**{"sales/shop": "own"}), team_names="{team}/{name}")])

    assert await backends.find("variable", "sales/shop", team=team) is None


WORD = st.from_regex(r"\A[a-z0-9_.@/-]{1,8}\Z")
PATTERN = st.sampled_from(["{team}/{name}", "{team}--{name}", "teams/{team}/{name}", "{name}@{team}"])


def owners(one: str, pattern: str) -> set[str]:
    """The teams to which a name can belong: those that have names of their own at all."""
    middle = between(pattern)
    team = f"(?P<team>[^{re.escape(middle)}]+)"
    fits = re.escape(pattern).replace(r"\{team\}", team).replace(r"\{name\}", "(?:.+)")
    return {found["team"]} if (found := re.fullmatch(fits, one)) else set()


@given(WORD, WORD, st.text(max_size=12) | WORD, PATTERN)
def test_no_name_reaches_a_secret_of_another_team(team: str, other: str, name: str, pattern: str) -> None:
    for asker in (team, None):
        for word in (name, pattern.format(team=other, name=name)):
            for one in names_to_ask(word, asker, pattern):
                assert owners(one, pattern) <= {asker}


@pytest.mark.parametrize(
    ("reader", "owner", "denied"),
    [
        (Reader("a"), "a", False),
        (Reader("a"), "b", True),
        (Reader("a"), None, False),
        (Reader(None), "b", True),
        (Reader(None), None, False),
        (EVERYTHING, "b", False),
    ],
)
def test_who_may_read_what_belongs_to_a_team(reader: Reader, owner: str | None, denied: bool) -> None:
    assert reader.is_denied(owner) is denied
