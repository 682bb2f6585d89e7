"""Jobs that wait for a quota: in order, for each namespace alone, and with growing pauses."""

from __future__ import annotations

from aiosched.core.values.worker_messages import Job
from aiosched.executors.kubernetes.quota_queue import QuotaQueue


def job(number: int) -> Job:
    return Job(id=number, token="t", urls=())


def test_one_is_tried_after_the_other_until_one_is_refused_again() -> None:
    queue = QuotaQueue()
    assert [queue.refuse(job(n), "a", f"r{n}", now=0.0) for n in (1, 2, 3)] == [True] * 3
    assert list(queue.due(1.0)) == []
    tried = []
    for refused in queue.due(2.0):
        tried.append(refused.job.id)
        if refused.job.id == 1:
            queue.drop(1)
        else:
            assert not queue.refuse(refused.job, "a", "again", now=2.0)
    assert tried == [1, 2]
    assert queue.ids() == {2, 3}
    assert list(queue.due(5.9)) == []
    assert next(queue.due(6.0)).job.id == 3, "the one that was refused last waits longest"


def test_namespaces_do_not_wait_for_each_other() -> None:
    queue = QuotaQueue()
    queue.refuse(job(1), "a", "", now=0.0)
    queue.refuse(job(2), "b", "", now=10.0)
    due = []
    for refused in queue.due(11.0):
        due.append(refused.job.id)
        queue.drop(refused.job.id)
    assert due == [1]
    assert len(queue) == 1


def test_how_long_a_job_waits_is_counted_from_its_first_refusal() -> None:
    queue = QuotaQueue()
    for now in (0.0, 4.0, 8.0):
        queue.refuse(job(1), "a", f"at {now}", now=now)
    assert queue.since(-1.0) == []
    assert [(one.job.id, one.reason) for one in queue.since(0.0)] == [(1, "at 8.0")]
