"""What lies in a broker: only workers of the team for which it is meant can open it."""

from __future__ import annotations

import base64

import msgspec
import pytest
from cryptography.fernet import Fernet

from aiosched.config import Settings, load_settings
from aiosched.core.values.worker_messages import Job
from aiosched.db.crypto.keyring import new_key
from aiosched.errors import ConfigError
from aiosched.executors.celery.sealing import SealedJobs, Seals

OURS, THEIRS = new_key(), new_key()


def seals(keys: str | None, **by_team: str) -> Seals:
    settings = Settings()
    settings.celery.keys, settings.celery.team_keys = keys, by_team or None
    return Seals(settings)


def job(number: int = 1, *, team: str | None = None) -> Job:
    return Job(id=number, token=f"token of {number}", urls=("http://web",), title="orders.pay", team=team)


def test_a_worker_with_the_key_gets_what_the_scheduler_sent() -> None:
    jobs = [job(1), job(2)]

    assert seals(OURS).open(seals(OURS).seal(jobs, held=False)) == SealedJobs(jobs=jobs, held=False)


def test_nothing_of_a_job_can_be_read_in_its_message() -> None:
    text = seals(OURS).seal([job()], held=True)

    shown = [text.encode(), base64.urlsafe_b64decode(text)]
    assert not [word for word in (b"token", b"orders", b"http") if any(word in part for part in shown)]
    assert len({seals(OURS).seal([job()], held=True) for _ in range(3)}) == 3  # not even that two are the same


@pytest.mark.parametrize(
    "forged",
    [
        msgspec.json.encode([job()]).decode(),  # as it was sent before
        msgspec.json.encode(SealedJobs(jobs=[job()])).decode(),
        Fernet(THEIRS).encrypt(msgspec.json.encode(SealedJobs(jobs=[job()]))).decode(),
        Fernet(OURS).encrypt(b'{"jobs": [{"id": "1"}]}').decode(),
        *("", "ü", "gAAAA", "null", None, 7, ["x"], {"jobs": []}, b"x"),
    ],
)
def test_what_was_not_sealed_with_its_key_opens_for_no_worker(forged: object) -> None:
    assert seals(OURS).open(forged) is None


def test_no_character_of_a_message_can_be_changed() -> None:
    text, worker = seals(OURS).seal([job()], held=True), seals(OURS)
    data = bytearray(base64.urlsafe_b64decode(text))

    for place in range(len(data)):
        altered = data.copy()
        altered[place] ^= 1
        assert worker.open(base64.urlsafe_b64encode(bytes(altered)).decode()) is None, place
    assert worker.open(text[:-4]) is None


def test_a_team_with_keys_of_its_own_is_opened_by_its_workers_only() -> None:
    scheduler = seals(OURS, sales=THEIRS)
    to_sales, to_others = scheduler.seal([job(team="sales")], held=True), scheduler.seal([job(team="x")], held=True)

    assert [worker.open(to_sales) is not None for worker in (seals(OURS), seals(THEIRS))] == [False, True]
    assert [worker.open(to_others) is not None for worker in (seals(OURS), seals(THEIRS))] == [True, False]
    assert [scheduler.owner(team) for team in ("sales", "x", None)] == ["sales", None, None]


def test_keys_are_replaced_without_a_pause() -> None:
    """Workers learn the new key first, then schedulers seal with it, then the old one goes."""
    new = new_key()
    old_scheduler, new_scheduler = seals(OURS), seals(f"{new}, {OURS}")

    worker = seals(f"{OURS},{new}")
    assert all(worker.open(one.seal([job()], held=True)) is not None for one in (old_scheduler, new_scheduler))
    assert seals(new).open(new_scheduler.seal([job()], held=True)) is not None


def test_the_keys_of_teams_are_a_table_or_json() -> None:
    settings = load_settings(environ={"AIOSCHED__CELERY__TEAM_KEYS": f'{{"sales": "{OURS}"}}'})

    assert settings.settings.celery.team_keys == {"sales": OURS}
    assert settings.values()["celery.team_keys"] == "***"


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("celery.keys", "sesame", "must be one or more keys of `aiosched db make-key`"),
        ("celery.keys", f"{OURS},short", "must be one or more keys"),
        ("celery.team_keys", '{"sales": "sesame"}', "must be one or more keys"),
        ("celery.team_keys", '{"sales": ""}', "must name keys by team"),
        ("celery.team_keys", f'{{"a,b": "{OURS}"}}', "has a name without commas"),
        ("celery.team_keys", "sesame", "must be a JSON object"),
        ("celery.team_keys", {"sales": 1}, "must name keys by team"),
    ],
    ids=["text", "one of two", "of a team", "empty", "a comma", "no table", "a number"],
)
def test_a_key_that_is_none_is_refused_and_not_shown(key: str, value: object, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as caught:
        load_settings({key: value}, environ={})
    assert "sesame" not in str(caught.value)
