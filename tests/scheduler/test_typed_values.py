"""What tasks return reaches other tasks equal and of the same type, with processes and without."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiosched import Scheduler
from aiosched.config import Settings
from aiosched.db.crypto.keyring import new_key
from tests.patience import PATIENCE

pytestmark = pytest.mark.usefixtures("kept_supervisors")

DAG_FILE = """
import dataclasses, enum, uuid
from collections import Counter, defaultdict
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import NamedTuple
from zoneinfo import ZoneInfo

import pydantic

from aiosched import DAG, task

class Colour(enum.Enum):
    RED = 1

@dataclasses.dataclass
class Row:
    at: datetime
    price: Decimal

class Word(str):
    pass

class Place(NamedTuple):
    x: int
    word: Word

class Order(pydantic.BaseModel):
    row: Row
    url: pydantic.HttpUrl = "http://example.org"

ROW = Row(datetime(2026, 1, 1, tzinfo=ZoneInfo("Europe/Amsterdam")), Decimal("1.50"))
VALUE = {"row": ROW, "colours": {Colour.RED}, 1: (uuid.UUID(int=1), b"x", 2**70)}
ODD = [
    "a\\0b", {"k\\0": "\\0"}, True, 1, 1.0, -0.0, float("inf"), 10**30, {True: 1}, [[[{"a": {}}]]], Word("w"),
    Place(1, Word()),
    Order(row=ROW), Order.model_construct(row=None), Counter("aab"), defaultdict(list, {"a": [1]}), range(2**70),
    datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=1), "CET")), datetime(2026, 1, 1, fold=1),
    {"$aiosched": "object", "class": "os:system", "value": "echo"}, {"__date__": "x"}, {"__object_storage_path__": "x"},
]

with DAG("d", schedule=None):

    @task
    def make():
        return VALUE

    @task
    def check(value, ti):
        assert value == VALUE == ti.xcom_pull(task_ids="make"), value
        assert type(value[1]) is tuple
        return value["row"].at - timedelta(days=1)

    @task
    def odd(ti):
        ti.xcom_push("one", ODD[0])
        return ODD

    @task
    def same(found, ti):
        assert repr(found) == repr(ODD) == repr(ti.xcom_pull(task_ids="odd")), found
        assert [type(one) for one in found] == [type(one) for one in ODD]
        assert ti.xcom_pull(task_ids="odd", key="one") == ODD[0]

    same(odd())

    @task
    def several():
        return ({"n": Decimal(1)}, ROW, Colour.RED)

    @task
    def pairs():
        return {1: "one", Colour.RED: "red"}

    @task
    def each(item, ti):
        assert item == ({"n": Decimal(1)}, ROW, Colour.RED)[ti.map_index], item
        return item

    @task
    def pair(item):
        assert item in [(1, "one"), (Colour.RED, "red")], item

    @task
    def gather(items, when):
        assert list(items) == [{"n": Decimal(1)}, ROW, Colour.RED], items
        assert when == ROW.at - timedelta(days=1), when
        assert when.tzinfo.key == "Europe/Amsterdam"

    gather(each.expand(item=several()), check(make()))
    pair.expand(item=pairs())
"""


@pytest.mark.parametrize(
    "executor",
    ["inline", pytest.param("local", marks=pytest.mark.slow), pytest.param("remote", marks=pytest.mark.slow)],
)
async def test_values_come_back_through_a_scheduler(dsn: str, tmp_path: Path, executor: str) -> None:
    settings = Settings()
    settings.core.home = tmp_path / "home"
    if executor == "remote":
        settings.xcom.remote = f"file://{tmp_path}/xcoms"
        settings.xcom.remote_from = 1
    folder = tmp_path / "dags"
    folder.mkdir()
    (folder / "d.py").write_text(DAG_FILE)
    async with Scheduler(
        dsn=dsn, dags_folder=folder, executor="local" if executor == "remote" else executor, settings=settings
    ) as scheduler:
        run = await scheduler.trigger("d", run_id="r")
        state = await run.wait(PATIENCE)
        reasons = await scheduler.db.fetch("SELECT reason FROM task_instance WHERE reason IS NOT NULL")
        assert state == "success", reasons


TRIGGERING = """
from datetime import UTC, datetime
from decimal import Decimal
from aiosched import DAG, Asset, Param, TriggerDagRunOperator, Variable, task

CONF = {"at": datetime(2026, 1, 1, tzinfo=UTC), "pairs": (1, {2}), "price": Decimal("1.50"), "$aiosched": "text"}
ORDERS = Asset("orders", extra=CONF)

with DAG("first", schedule=None):
    TriggerDagRunOperator(
        task_id="go", trigger_dag_id="second", conf=CONF, trigger_run_id="r", wait_for_completion=True,
        poke_interval=0.05,
    )

with DAG("second", schedule=None, params={"at": Param(type="string", format="date-time")}):

    @task(outlets=[ORDERS])
    def look(params, dag_run, outlet_events):
        assert dag_run.conf == CONF, dag_run.conf
        assert {**params} == CONF, params
        assert type(params["pairs"]) is tuple
        assert ORDERS.extra == CONF, ORDERS.extra
        Variable.set("v", CONF, serialize_json=True)
        outlet_events[ORDERS].extra.update(CONF)

    @task(inlets=[ORDERS])
    def read(inlet_events):
        assert Variable.get("v", deserialize_json=True) == CONF
        assert inlet_events[ORDERS][-1].extra == CONF, inlet_events[ORDERS][-1].extra

    look() >> read()
"""


async def test_conf_variables_and_extras_keep_their_types(dsn: str, tmp_path: Path) -> None:
    settings = Settings()
    settings.secrets.fernet_keys = new_key()
    settings.core.home = tmp_path / "home"
    folder = tmp_path / "dags"
    folder.mkdir()
    (folder / "d.py").write_text(TRIGGERING)
    async with Scheduler(dsn=dsn, dags_folder=folder, executor="inline", settings=settings) as scheduler:
        run = await scheduler.trigger("first", run_id="r")
        state = await run.wait(PATIENCE)
        reasons = await scheduler.db.fetch("SELECT reason FROM task_instance WHERE reason IS NOT NULL")
        assert state == "success", reasons


SETTING_DEFAULTS = """
from aiosched import Variable, dag, task
from aiosched.errors import NotFound

@dag(schedule=None)
def defaults():
    @task
    def look():
        Variable.set("region", "eu")
        assert Variable.setdefault("region", "us") == "eu"
        assert Variable.setdefault("limits", {"cpu": 2}, deserialize_json=True) == {"cpu": 2}
        assert Variable.get("limits", deserialize_json=True) == {"cpu": 2}
        Variable.update("region", "asia")
        assert Variable.get("region") == "asia"
        for wrong, error in ((lambda: Variable.update("nowhere", "x"), NotFound),
                             (lambda: Variable.setdefault("nothing", None), ValueError)):
            try:
                wrong()
            except error as said:
                assert "nowhere" in str(said) or "nothing" in str(said), said
            else:
                raise AssertionError(error)

    look()

defaults()
"""


async def test_variables_get_defaults_and_only_what_exists_is_updated(dsn: str, tmp_path: Path) -> None:
    settings = Settings()
    settings.secrets.fernet_keys, settings.core.home = new_key(), tmp_path / "home"
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "d.py").write_text(SETTING_DEFAULTS)
    async with Scheduler(dsn=dsn, dags_folder=tmp_path / "dags", executor="inline", settings=settings) as scheduler:
        run = await scheduler.trigger("defaults")
        assert await run.wait(PATIENCE, raise_on_failure=True) == "success"
