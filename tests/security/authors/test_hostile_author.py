"""One hostile author in each place where its code runs in a worker: whatever it sends, it speaks for itself.

The victim is a run of another team. What else the author may reach depends on the user, see test_same_user.py and
test_dag_code_as_another_user.py; all ways and goals are in the table of docs/security.md.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aiosched.core.values.messages import Attempt, Outcome
from tests.executors.attempt_builders import (
    FakeServices,
    Reports,
    StartLocal,
    attempt,
    callback_attempt,
    trigger_attempt,
    write_dag,
)
from tests.executors.test_forged_messages import SPEAKER, VICTIM
from tests.patience import until

ATTACKS = {
    "another team's connection": "as_victim().acall('connection', get='shop', by=['t', -1, 1])",
    "another team's variable": "as_victim().acall('variable', get='region', by=['t', -1, 1])",
    "another run's values": "later(speaker().get_xcoms, VICTIM.run, [XComRef('victim')])",
    "state of another's task": "as_victim().acall('task_state', do='set', key='k', value=1, task_id='t', map_index=-1)",
    "a check of another's asset": "as_victim().acall('asset_check', task_id='t', map_index=-1, try_number=1)",
    "answer to another's question": "as_victim().acall('close_input', task_index=0, map_index=-1, by='boss')",
    "a run in another's name": "as_victim().acall('trigger_dag', dag_id='v')",
    "an entry of what another read": "as_victim(-2**63).acall('connection', get='shop', by=['victim', -1, 1])",
}
MESSAGES = {
    "another's end": "Ended([report('success', xcoms=(XComValue('return_value', '\"forged\"'),))])",
    "another's failure": "Ended([report('failed', fail_now=True)])",
    "another's trigger": "Fired(1, report('failed'))",
    "another's fields": "FieldsRendered(VICTIM, '{\"forged\": 1}')",
}
AUTHOR = f"""
import inspect, json
from pathlib import Path
from speaker import *

FOUND = Path(__file__).parent / "found.json"

async def later(ask, *args):
    said = ask(*args)
    return await said if inspect.isawaitable(said) else said

def attacks():
    return {{{", ".join(f"{name!r}: lambda: {ask}" for name, ask in ATTACKS.items())}}}

def send():
    for message in ({", ".join(MESSAGES.values())},):
        try:
            getattr(speaker(), "send", None) and speaker().send(message)
        except Exception:
            pass

async def attack():
    send()
    FOUND.write_text(json.dumps({{name: await said_later(ask) for name, ask in attacks().items()}}))

def attack_blocking():
    send()
    found = {{}}
    for name, ask in attacks().items():
        found[name] = said(lambda: running_services()._blocking(ask()))
    FOUND.write_text(json.dumps(found))

class Attacks(BaseTrigger):
    async def run(self):
        await attack()
        yield TriggerEvent(1)
"""
DAGS = {
    "task": "def t(): attack_blocking()\ntask(t)",
    "coroutine": "async def t(): await attack()\ntask(t)",
    "trigger": "pass",
    "callback": "def t(): pass\ntask(t)",
    "import": "attack_blocking()\ndef t(): pass\ntask(t)",
}


class Heard(FakeServices):
    """Services that know in whose name they were asked."""

    def __init__(self) -> None:
        super().__init__()
        self.runs: list[int] = []

    async def get_xcoms(self, run: int, refs: Any) -> Any:
        self.runs.append(run)
        return await super().get_xcoms(run, refs)

    async def call(self, run: int, name: str, args: str) -> str:
        self.runs.append(run)
        return await super().call(run, name, args)


@pytest.fixture
def services() -> Heard:
    return Heard()


def by(way: str) -> Attempt:
    """The author's attempt, of which its code is run in this way."""
    match way:
        case "trigger":
            return trigger_attempt("author.Attacks", number=2, team="red")
        case "callback":
            mine = attempt("t", number=2, team="red")
            return msgspec.structs.replace(callback_attempt("dag_success"), run=mine.run)
    return attempt("t", number=2, team="red", is_async=way == "coroutine")


@pytest.mark.parametrize("way", DAGS)
async def test_code_of_an_author_speaks_for_itself(
    start_local: StartLocal,
    dags_folder: Path,
    reports: Reports,
    services: Heard,
    way: str,
) -> None:
    go = dags_folder / "go"
    path = dags_folder / write_dag(dags_folder, f"from author import *\n{DAGS[way]}")
    if way == "callback":
        called = "schedule=None, on_success_callback=lambda context: attack_blocking()"
        path.write_text("from author import *\n" + path.read_text().replace("schedule=None", called))
    write_dag(dags_folder, VICTIM.replace('"go"', repr(str(go))), name="v")
    (dags_folder / "speaker.py").write_text(SPEAKER)
    (dags_folder / "author.py").write_text(AUTHOR)
    executor = await start_local()
    victim, author = attempt("victim", number=1, file="v.py", dag_id="v", team="blue"), by(way)

    executor.submit([victim])
    executor.submit([author])

    ended = await reports.of(author)
    assert ended.outcome in (Outcome.SUCCESS, Outcome.TRIGGERED), ended
    found = json.loads((dags_folder / "found.json").read_text())
    assert found.keys() == ATTACKS.keys()
    for name, said in found.items():
        assert said.split(":")[0] in ("Refused", "ExecutorError", "AttributeError", "ConfigError"), (name, said)
    assert 1 not in services.runs
    go.touch()
    own = await reports.of(victim)
    assert [value.value for value in own.xcoms] == ['"untouched"']
    assert {report.rendered for report in reports.all if report.key == victim.key} == {None}


async def test_a_trigger_that_blocks_its_loop_holds_up_its_own_team_only(
    start_local: StartLocal,
    dags_folder: Path,
    reports: Reports,
) -> None:
    blocked = dags_folder / "blocked"
    source = f"""
import pathlib, time
from aiosched.triggers import BaseTrigger, TriggerEvent
class Blocks(BaseTrigger):
    async def run(self):
        pathlib.Path({str(blocked)!r}).touch()
        time.sleep(10_000)
        yield TriggerEvent(1)
class Fires(BaseTrigger):
    async def run(self):
        yield TriggerEvent(1)
"""
    write_dag(dags_folder, "pass")
    (dags_folder / "hangs.py").write_text(source)
    executor = await start_local()
    blocks = trigger_attempt("hangs.Blocks", number=1, team="red")
    executor.submit([blocks])
    await until(blocked.exists)
    executor.submit([beside := trigger_attempt("hangs.Fires", number=2, team="red")])
    for number, team in ((3, "blue"), (4, None)):
        executor.submit([fires := trigger_attempt("hangs.Fires", number=number, team=team)])
        report = await reports.of(fires)
        assert report.outcome is Outcome.TRIGGERED, report.reason
    assert not [report for report in reports.final if report.key in (blocks.key, beside.key)]
