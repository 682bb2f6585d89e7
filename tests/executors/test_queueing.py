"""Who gets which plain function: workers that are free, and the lines of those that know the file."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosched.core.creation.upcoming import NO_RUN
from aiosched.core.values.messages import Attempt, RunInfo
from aiosched.executors.local.affinity import PATIENCE, code_file
from aiosched.executors.local.queueing import AttemptQueue
from aiosched.executors.local.worker_link import WorkerLink
from aiosched.executors.worker.claim_pipe import ClaimPipe, draw
from aiosched.executors.worker.protocol import Ended, Warmed
from tests.executors.attempt_builders import attempt
from tests.patience import until

SHORT, IMPORT = 0.0001, 0.01  # seconds


class NoTransport:
    """Takes what is written, and is never full."""

    def write(self, data: bytes) -> None: ...

    def is_closing(self) -> bool:
        return False


class Hall:
    """Workers that run nothing by themselves: they draw the ticket of the first attempt that they have."""

    def __init__(self, *, slots: int, lines: bool = True) -> None:
        self.spawned = 0
        self.asleep = False  # workers draw nothing
        self.links: dict[int, WorkerLink] = {}
        self.back: list[Attempt] = []
        self.dismissed: list[WorkerLink] = []
        self.queue = AttemptQueue(self, self.links, slots=slots, lines=lines, idle_time=60)

    def spawn(self, *, is_async: bool, team: str | None, user: str | None = None) -> WorkerLink:
        self.spawned += 1
        link = WorkerLink(self.spawned - 1, is_async=is_async, team=team, user=user, listener=self)
        link.claim_pipe, link._transport = ClaimPipe(), NoTransport()  # type: ignore[assignment]
        self.links[link.number] = link
        return link

    def begin(self, link: WorkerLink, attempt: Attempt) -> None:
        link.run(attempt)
        link._flush()
        if len(link.attempts) == 1:
            self.draw(link)

    def draw(self, link: WorkerLink) -> None:
        assert link.claim_pipe is not None
        if not self.asleep:
            draw(link.claim_pipe.descriptor)

    def taken_back(self, attempts: Iterable[Attempt]) -> None:
        self.back += attempts

    def dismiss(self, link: WorkerLink) -> None:
        self.dismissed.append(link)

    def submit(self, *attempts: Attempt) -> None:
        for one in attempts:
            self.queue.add(one)
        self.queue.pump()

    def end(self, number: int, *, took: float = SHORT, imported: float = 0.0) -> Attempt:
        """The worker has run the first of what it has, and drawn the next."""
        link = self.links[number]
        one = link.attempts.pop(next(iter(link.attempts)))
        self.queue.ended(link, one, Ended([], None, took + imported, imported))
        if link.attempts:
            self.draw(link)
        else:
            self.queue.idle(link)
        self.queue.pump()
        return one

    def lines(self) -> list[list[int]]:
        """The runs of what each worker has."""
        return [[key.run for key in link.attempts] for link in self.links.values()]

    def worker_ready(self, link: WorkerLink) -> None: ...
    def attempts_ended(self, link: WorkerLink, ended: Ended) -> None: ...
    def file_warmed(self, link: WorkerLink, run: RunInfo, warmed: Warmed) -> None: ...
    def trigger_fired(self, link: WorkerLink, fired: object) -> None: ...
    def worker_asks(self, link: WorkerLink, question: object) -> None: ...
    def link_lost(self, link: WorkerLink) -> None: ...


def of(file: str, *numbers: int, team: str | None = None) -> list[Attempt]:
    return [attempt("t", file=file, number=number, team=team) for number in numbers]


@pytest.fixture
async def halls() -> AsyncIterator[Callable[..., Hall]]:
    """Makes halls."""
    made: list[Hall] = []

    def make(**options: Any) -> Hall:
        made.append(Hall(**options))
        return made[-1]

    yield make
    for hall in made:
        hall.queue.close()
        for link in hall.links.values():
            assert link.claim_pipe is not None
            link.claim_pipe.close()


@pytest.fixture
async def hall(halls: Callable[..., Hall]) -> Hall:
    """A queue that knows that attempts are short, with one idle worker that has loaded a.py, and another slot."""
    return warm(halls(slots=2))


def warm(hall: Hall) -> Hall:
    """The same, after one short attempt of a.py."""
    hall.submit(*of("a.py", 0))
    hall.end(0, imported=IMPORT)
    return hall


async def test_while_nothing_is_known_attempts_spread_over_all_workers(halls: Callable[..., Hall]) -> None:
    hall = halls(slots=3)

    hall.submit(*of("a.py", 1, 2, 3, 4))

    assert hall.lines() == [[1], [2], [3]]
    assert len(hall.queue) == 1


async def test_short_attempts_wait_in_the_line_of_the_worker_that_knows_their_file(hall: Hall) -> None:
    hall.submit(*of("a.py", 1, 2, 3), *of("b.py", 4, 5), *of("a.py", 6))

    assert hall.lines() == [[1, 2, 3, 6], [4, 5]]


async def test_long_attempts_do_not_wait_in_lines(hall: Hall) -> None:
    hall.submit(*of("a.py", 1))
    hall.end(0, took=10)

    hall.submit(*of("a.py", 2, 3, 4))

    assert hall.lines() == [[2], [3]]


async def test_a_line_is_no_longer_than_what_importing_the_file_once_more_is_worth(hall: Hall) -> None:
    hall.submit(*of("a.py", 1))
    hall.end(0, took=IMPORT * 4)  # now expected: a little more than half an import

    hall.submit(*of("a.py", *range(2, 10)))

    assert [len(line) for line in hall.lines()] == [4, 4]


async def test_when_no_worker_is_free_strangers_wait_in_the_shortest_line(hall: Hall) -> None:
    hall.submit(*of("a.py", 1, 2, 3), *of("b.py", 4))

    hall.submit(*of("c.py", 5))

    assert hall.lines() == [[1, 2, 3], [4, 5]]


async def test_what_waits_in_lines_is_counted_as_taken(hall: Hall) -> None:
    room = hall.queue.room

    hall.submit(*of("a.py", 1, 2))

    assert hall.queue.room == room - 2


async def test_what_is_taken_back_comes_before_all_others_in_its_order(halls: Callable[..., Hall]) -> None:
    hall = warm(halls(slots=1))
    hall.submit(*of("a.py", 1, 2, 3))

    hall.queue.take_back(hall.links[0])
    assert hall.lines() == [[1]]
    assert [one.key.run for one in hall.back] == [2, 3]
    hall.submit(*of("a.py", 4))

    assert hall.lines() == [[1, 2, 3, 4]]


async def test_a_worker_from_which_everything_was_taken_back_is_idle(hall: Hall) -> None:
    hall.asleep = True
    hall.submit(*of("a.py", 1, 2))

    hall.queue.take_back(hall.links[0])
    hall.queue.pump()

    assert hall.lines() == [[1, 2]]


async def test_what_waits_too_long_goes_to_whoever_is_free(hall: Hall) -> None:
    hall.submit(*of("a.py", 1, 2, 3))
    assert hall.lines() == [[1, 2, 3]]

    await until(lambda: len(hall.links) == 2)

    assert sorted(map(len, hall.lines())) == [1, 2]
    assert sorted(run for line in hall.lines() for run in line) == [1, 2, 3]


async def test_nobody_waits_behind_what_takes_long(hall: Hall) -> None:
    hall.submit(*of("a.py", 1))
    hall.links[0].head_since -= 2 * PATIENCE

    hall.submit(*of("a.py", 2))

    assert hall.lines() == [[1], [2]]


async def test_with_a_process_for_each_attempt_there_are_no_lines(halls: Callable[..., Hall]) -> None:
    hall = warm(halls(slots=1, lines=False))

    hall.submit(*of("a.py", 1, 2))

    assert hall.lines() == [[1]]
    assert len(hall.queue) == 1


async def test_a_closed_queue_returns_what_has_not_begun_and_leaves_what_a_worker_has_alone(hall: Hall) -> None:
    hall.submit(*of("a.py", 1, 2), *of("b.py", 3))

    assert [one.key.run for one in hall.queue.close()] == [2]
    assert hall.lines() == [[1], [3]]
    assert hall.queue.room == 0


def expected(file: str, team: str | None = None) -> RunInfo:
    return attempt("t", file=file, number=NO_RUN, team=team).run


TEAMS = [None, "red", "blue"]


@given(st.lists(st.tuples(st.sampled_from("spwxg"), st.integers(0, 5)), max_size=60), st.integers(1, 3))
def test_whatever_is_imported_beforehand_each_attempt_is_run_once_within_the_slots(
    steps: list[tuple[str, int]], slots: int
) -> None:
    """Submits, prepares, ends imports well and badly, and kills workers that import; then ends everything.

    No worker ever has attempts or files of two teams, of which there are two and nobody.
    """

    async def play() -> None:
        hall, ended, number = Hall(slots=slots), list[int](), 0

        def check() -> None:
            busy = [link for link in hall.links.values() if link.attempts]
            assert len(busy) <= slots
            for link in hall.links.values():
                runs = [*(one.run for one in link.attempts.values()), *link.warming.values()]
                assert {run.team for run in runs} | {file[3] for file in link.files} <= {link.team}
            assert all(len(link.warming) <= 1 and not (link.warming and link.attempts) for link in hall.links.values())
            assert sum(bool(link.warming) for link in hall.links.values()) <= max(1, slots // 2)

        def end_import(link: WorkerLink, error: str | None) -> None:
            (run,) = link.warming.values()
            link.warming.clear()
            if error is None:
                link.files.add(code_file(run))
            hall.queue.warmed(link, run, Warmed(1, 0.5, error))

        for step, which in steps:
            importing = [link for link in hall.links.values() if link.warming]
            busy = [link for link in hall.links.values() if link.attempts]
            if step == "s":
                number += 1
                hall.submit(*of(f"{which % 3}.py", number, team=TEAMS[which % 3]))
            elif step == "p":
                hall.queue.prepare([expected(f"{n}.py", TEAMS[n % 3]) for n in (which % 3, which)])
            elif step in "wx" and importing:
                end_import(importing[which % len(importing)], None if step == "w" else "it is broken")
            elif step == "g" and importing:
                link = importing[which % len(importing)]
                link.retiring = True
                del hall.links[link.number]
                hall.queue.gone(link)
                hall.queue.pump()
                assert link.claim_pipe is not None
                link.claim_pipe.close()
            elif busy:
                ended.append(hall.end(busy[which % len(busy)].number).key.run)
            await asyncio.sleep(0)
            check()
        for _ in range(1000):
            for link in list(hall.links.values()):
                if link.attempts:
                    ended.append(hall.end(link.number).key.run)
                elif link.warming:
                    end_import(link, None)
            await asyncio.sleep(0)
            check()
            if len(ended) == number and not hall.queue.warming:
                break
        assert sorted(ended) == list(range(1, number + 1))
        assert len(hall.queue) == 0
        hall.queue.close()
        for link in hall.links.values():
            assert link.claim_pipe is not None
            link.claim_pipe.close()

    asyncio.run(play())
