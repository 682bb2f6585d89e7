"""Tickets: each is drawn once, by the worker or by the scheduler."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from aiosched.executors.worker.claim_pipe import ClaimPipe, draw
from aiosched.executors.worker.protocol import RunAttempts, ServiceResult, frame
from aiosched.executors.worker.worker import Channel, SchedulerGone
from tests.executors.attempt_builders import attempt


@pytest.fixture
def claim_pipe() -> Iterator[ClaimPipe]:
    claim_pipe = ClaimPipe()
    yield claim_pipe
    claim_pipe.close()


@contextmanager
def channel_of(claim_pipe: ClaimPipe) -> Iterator[tuple[socket.socket, Channel]]:
    """The scheduler's end of a socket, and the worker's channel."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, Channel(theirs, claim_pipe.descriptor)


def test_the_worker_draws_in_the_order_of_issue_and_the_scheduler_what_is_left(claim_pipe: ClaimPipe) -> None:
    first = claim_pipe.issue(3)
    claim_pipe.issue(2)

    assert [draw(claim_pipe.descriptor), draw(claim_pipe.descriptor)] == [first, first + 1]
    assert claim_pipe.take_back() == 3
    assert draw(claim_pipe.descriptor) is None
    assert claim_pipe.take_back() == 0


def test_numbers_go_on_after_tickets_were_taken_back(claim_pipe: ClaimPipe) -> None:
    claim_pipe.issue(2)
    claim_pipe.take_back()

    assert claim_pipe.issue(1) == 3
    assert draw(claim_pipe.descriptor) == 3


def test_nothing_is_left_of_closed_tickets(claim_pipe: ClaimPipe) -> None:
    claim_pipe.issue(1)
    claim_pipe.close()
    claim_pipe.close()

    assert claim_pipe.take_back() == 0


def test_no_ticket_is_drawn_by_both_and_none_by_nobody(claim_pipe: ClaimPipe) -> None:
    drawn: list[int] = []
    done = threading.Event()

    def work() -> None:
        while True:
            last = done.is_set()  # before the draw, so that what was issued before is seen
            ticket = draw(claim_pipe.descriptor)
            if ticket is not None:
                drawn.append(ticket)
            elif last:
                return

    worker = threading.Thread(target=work)
    worker.start()
    taken = 0
    for count in range(1, 400):
        claim_pipe.issue(count % 7)
        taken += claim_pipe.take_back() if count % 3 == 0 else 0
    done.set()
    worker.join()

    assert drawn == sorted(set(drawn))
    assert len(drawn) + taken == sum(count % 7 for count in range(1, 400))


def test_a_worker_begins_what_was_not_taken_back_in_order(claim_pipe: ClaimPipe) -> None:
    one, two, three, four = (attempt("t", number=n) for n in range(1, 5))
    with channel_of(claim_pipe) as (ours, channel):
        ours.sendall(frame(RunAttempts([one, two, three], claim_pipe.issue(3))))
        begun = [channel.next_work()]
        claim_pipe.take_back()
        ours.sendall(frame(RunAttempts([four], claim_pipe.issue(1))))
        begun.append(channel.next_work())

    assert begun == [one, four]


def test_a_worker_whose_whole_line_was_taken_back_waits_for_the_next_attempt(claim_pipe: ClaimPipe) -> None:
    one, two = attempt("t", number=1), attempt("t", number=2)
    with channel_of(claim_pipe) as (ours, channel):
        ours.sendall(frame(RunAttempts([one], claim_pipe.issue(1))))
        claim_pipe.take_back()
        ours.sendall(frame(RunAttempts([two], claim_pipe.issue(1))))

        assert channel.next_work() == two


async def test_attempts_that_come_while_a_task_waits_for_an_answer_are_kept(claim_pipe: ClaimPipe) -> None:
    one = attempt("t", number=1)
    with channel_of(claim_pipe) as (ours, channel):
        ours.sendall(frame(RunAttempts([one], claim_pipe.issue(1))) + frame(ServiceResult(1, "42")))

        assert await channel.call(1, "ask", "{}") == "42"
        assert channel.next_work() == one


@pytest.mark.parametrize("gone", ["socket", "tickets"])
def test_a_worker_ends_when_its_scheduler_is_gone(claim_pipe: ClaimPipe, gone: str) -> None:
    with channel_of(claim_pipe) as (ours, channel):
        if gone == "socket":
            ours.close()
        else:
            claim_pipe.close()

        with pytest.raises(SchedulerGone):
            channel.next_work()
