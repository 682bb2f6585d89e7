"""What tasks return of libraries comes back equal and of the same type, or the task fails."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import multidict
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from aiosched import Scheduler
from aiosched.authoring.runtime.xcom_values import read_xcom
from aiosched.config import Settings
from aiosched.testing import World
from tests.patience import PATIENCE
from tests.testing.world_builders import NEW_YEAR, dag, minutes

ZONE = "Europe/Amsterdam"
DAYS = pd.date_range("2026-01-01", periods=2, freq="D")
STRUCT = np.dtype([("a", "i4"), ("b", "f8"), ("c", "U3"), ("d", "i4", (2,))])
PADDED = np.dtype([("a", "i1"), ("b", "f8")], align=True)


@dataclasses.dataclass
class Holder:
    x: Any
    y: Any = None


class OwnFrame(pd.DataFrame):
    pass


def frame(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame(columns)


def with_attrs(value: Any) -> Any:
    value.attrs = {"unit": "kg"}
    return value


def assert_same(back: Any, value: Any) -> None:
    """They are equal and of the same type, in all that a library looks at."""
    assert type(back) is type(value)
    match value:
        case np.ndarray():
            assert (back.dtype, back.shape) == (value.dtype, value.shape)
            padded = value.dtype.names is not None  # with any bytes between the fields
            assert (back == value).all() if padded else back.tobytes() == value.tobytes()
        case np.generic():
            assert (back.dtype, back.tobytes()) == (value.dtype, value.tobytes())
        case pd.DataFrame():
            pd.testing.assert_frame_equal(back, value, check_exact=True, check_column_type=True)
            assert type(back.columns) is type(value.columns)
            assert back.attrs == value.attrs
        case pd.Series():
            pd.testing.assert_series_equal(back, value, check_exact=True)
            assert back.attrs == value.attrs
        case pd.Timestamp() | pd.Timedelta():
            assert (back, str(back), back.unit) == (value, str(value), value.unit)
        case pl.DataFrame():
            assert back.equals(value)
            assert back.schema == value.schema
        case pl.Series():
            assert back.equals(value, check_names=True, check_dtypes=True)
        case pa.Table():
            assert back.equals(value, check_metadata=True)
        case list() | tuple():
            for each, other in zip(back, value, strict=True):
                assert_same(each, other)
        case dict():
            assert_same(list(back.items()), list(value.items()))
        case Holder():
            assert_same([back.x, back.y], [value.x, value.y])
        case _:
            assert back is value or back == value


COME_BACK: dict[str, Callable[[], Any]] = {
    "numbers": lambda: [np.float32(1.5), np.float16(0.1), np.float64("nan"), np.float32("inf"), np.float64(-0.0),
                        np.int8(-1), np.uint64(2**64 - 1), np.int64(-(2**63)), np.bool_(True), np.complex64(1 + 2j),
                        np.longlong(3), np.ulonglong(3), np.intc(3), np.array([1], dtype=">i4")[0]],
    "texts": lambda: [np.str_("a"), np.bytes_(b"a"), np.str_("a\0"), np.bytes_(b"a\0")],
    "instants": lambda: [np.datetime64("2026-01-01"), np.datetime64("2026-01-01T00:00:00.000000001"),
                         np.datetime64("NaT"), np.datetime64("NaT", "ns"), np.timedelta64(5, "D"),
                         np.timedelta64("NaT"), np.datetime64("2026-01-01", "25s"), np.timedelta64(5)],  # type: ignore[call-overload]
    "keys": lambda: [{np.int64(1): "x", np.float64(1.5): 1, np.str_("a"): 2}, {np.int64(1)}, {np.str_("a"): 1}],
    "arrays": lambda: [np.arange(6).reshape(2, 3), np.array(5), np.asfortranarray(np.zeros((2, 3))), np.array([]),
                       np.zeros((0, 3)), np.array([np.nan]), np.array(["a", "bc"]), np.arange(5)[::-1],
                       np.array(["2026-01-01", "NaT"], dtype="M8[D]"), np.array([1], dtype=">i4"),
                       np.array([1], dtype=np.longdouble), np.broadcast_to(np.array([1]), (3,))],
    "structured arrays": lambda: [np.array([(1, 2.5, "x", [1, 2])], STRUCT), np.void(b"abc"),
                                  np.array([(1, 2.5, "x", [1, 2])], STRUCT)[0], np.zeros(2, PADDED)],
    "in other values": lambda: {"a": [np.float32(1), (np.arange(2), frame(a=[1]))], "b": Holder(np.arange(3), pd.NaT)},
    "frames": lambda: [frame(a=[1, 2], b=["x", None]), pd.DataFrame(), frame(a=[1])[:0], pd.DataFrame(index=[1, 2])],
    "names of headers": lambda: {multidict.istr("Content-Type"): [multidict.istr("A"), (multidict.istr("B"),)]},
    "attrs": lambda: [with_attrs(frame(a=[1])), with_attrs(pd.Series([1], name="n"))],
    "types of columns": lambda: frame(
        a=[Decimal("1.50")], b=[date(2026, 1, 1)], c=pd.to_datetime(["2026-01-01T00:00:00.000000001"]),
        d=pd.to_timedelta([None]), e=pd.array([None], dtype="Int64"), f=pd.array([True], dtype="boolean"),
        g=pd.array([None], dtype="string"), h=pd.Series([1], dtype="uint8"), i=[b"x"], j=[True], k=[time(1)],
        l=pd.period_range("2026", periods=1, freq="M"), m=pd.interval_range(0, 1), n=np.array([1], dtype="f2"),
        o=pd.array([1], dtype="int64[pyarrow]"), p=[uuid.UUID(int=1).bytes]),
    "zones": lambda: [frame(a=pd.to_datetime(["2026-07-01", None]).tz_localize(ZONE)),
                      pd.DataFrame({"a": [1]}, index=pd.DatetimeIndex(["2026-01-01"], tz=ZONE)),
                      pd.DataFrame({"a": [1]}, index=pd.DatetimeIndex(["2026-01-01"], tz=ZoneInfo(ZONE)))],
    "frequencies": lambda: [pd.DataFrame({"a": [1, 2]}, index=DAYS),
                            pd.Series([1, 2], index=pd.date_range("2026", periods=2, freq="MS", tz=ZONE)),
                            pd.DataFrame({"a": [1, 2]}, index=pd.timedelta_range(0, periods=2, freq="h"))],
    "indexes": lambda: [frame(a=[1], b=["x"], c=[2]).set_index(["a", "b"]),
                        pd.DataFrame({"a": [1]}, index=pd.Index([5], name="n")),
                        pd.DataFrame({"a": [1, 2]}, index=pd.RangeIndex(5, 9, 2)),
                        frame(a=[1], b=["x"], c=[2]).set_index(["a", "b"])["c"]],
    "names of columns": lambda: [pd.DataFrame([[1, 2]]), pd.DataFrame([[1]], columns=pd.Index(["a"], name="n")),
                                 pd.DataFrame([[1, 2]], columns=pd.RangeIndex(3, 7, 2, name="n")),
                                 pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", "b"), ("a", "c")]))],
    "categories": lambda: [frame(a=pd.Categorical(["x", "y"], categories=["y", "x", "z"], ordered=True)),
                           pd.Series(["a"], dtype="category")],
    "series": lambda: [pd.Series([1, 2], name="z"), pd.Series([1.5, None]), pd.Series([1], name=5),
                       pd.Series([1], name=("a", "b")), pd.Series([], dtype="float64"), pd.Series([Decimal("1.5")])],
    "timestamps": lambda: [pd.Timestamp("2026-01-01"), pd.Timestamp("2026-01-01", tz=ZONE), pd.Timestamp(1, unit="ns"),
                           pd.Timestamp("2026-10-25 02:30").tz_localize(ZONE, ambiguous=False),
                           pd.Timestamp("2026-01-01T00:00+02:00"), pd.Timestamp("2026-01-01").as_unit("s"),
                           pd.Timestamp("9999-12-31"), pd.Timestamp(datetime(1, 1, 1)),  # noqa: DTZ001
                           pd.Timedelta("1 days 00:00:00.000000001"), pd.Timedelta(days=200_000).as_unit("s"),
                           pd.NaT, pd.NA, None, {pd.Timestamp("2026"): 1}],
    "polars": lambda: [pl.DataFrame({"a": [1, None], "b": ["x", "y"]}), pl.DataFrame(),
                       pl.DataFrame(schema={"a": pl.Int8}),
                       pl.DataFrame({"a": ["x"]}, schema={"a": pl.Categorical}), pl.DataFrame({"a": [{"x": [1]}]}),
                       pl.DataFrame({"a": ["x"]}, schema={"a": pl.Enum(["x", "y"])}), pl.Series("n", [1, None]),
                       pl.DataFrame({"a": [datetime(2026, 1, 1, tzinfo=ZoneInfo(ZONE))], "b": [Decimal("1.50")],
                                     "c": [timedelta(1)], "d": [time(1)], "e": [b"x"], "f": [None]}),
                       pl.concat([pl.DataFrame({"a": [1]}), pl.DataFrame({"a": [2]})], rechunk=False),
                       pl.DataFrame({"a": range(10)})[3:5]],
    "Arrow": lambda: [pa.table({"a": [1, None], "b": ["x", "y"]}), pa.table({}),
                      pa.table({"a": pa.array([], pa.int8())}),
                      pa.table({"a": [1]}).replace_schema_metadata({"k": "v"}), pa.table({"a": [{"x": [1]}]}),
                      pa.table({"a": pa.array(["x", "y"]).dictionary_encode()}), pa.table([[1], [2]], names=["a", "a"]),
                      pa.table({"a": pa.chunked_array([[1], [2]])}), pa.table({"a": list(range(10))}).slice(3, 2)],
}  # fmt: skip

REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "an array of objects": (lambda: np.array([1, "a"], dtype=object), "is a numpy array of objects"),
    "a masked array": (lambda: np.ma.array([1, 2], mask=[0, 1]), "is a numpy.ma.MaskedArray"),
    "a masked item": (lambda: [np.ma.masked], "[0] is a numpy.ma.core.MaskedConstant"),
    "a record array": (lambda: np.rec.array([(1, 2)], dtype=[("a", int), ("b", int)]), "is a numpy.rec.recarray"),
    "a record": (lambda: np.rec.array([(1, 2)], dtype=[("a", int), ("b", int)])[0], "is a numpy.rec"),
    "a long float": (lambda: np.longdouble(1), "which has more digits than JSON: return float(value)"),
    "a generator of numbers": (lambda: np.random.default_rng(1), "is a numpy.random"),
    "a frame of objects": (lambda: frame(a=[1, "x"]), "is a pandas DataFrame that does not come back equal"),
    "a frame of lists": (lambda: {"a": frame(a=[[1], [2]])}, "['a'] is a pandas DataFrame that does not come back"),
    "a frame of sets": (lambda: frame(a=[{1}]), "is a pandas DataFrame that does not come back equal from Parquet"),
    "a frame of byte arrays": (lambda: frame(a=[bytearray(b"x")]), "its values are of other types"),
    "columns of one name": (lambda: pd.DataFrame([[1, 2]], columns=["a", "a"]), "Duplicate column names found"),
    "columns of two types": (lambda: pd.DataFrame([[1, 2]], columns=["a", 1]), "does not come back equal"),
    "numbers as categories": (lambda: frame(a=pd.Categorical([1, 2])), "does not come back equal"),
    "a sparse frame": (lambda: frame(a=pd.arrays.SparseArray([0, 1])), "Sparse pandas data (column a) not supported"),
    "seconds": (lambda: frame(a=np.array(["2026-01-01"], dtype="M8[s]")), "does not come back equal"),
    "a frame of one's own": (lambda: OwnFrame({"a": [1]}), "is a test_values_of_libraries.OwnFrame"),
    "an index": (lambda: pd.Index([1]), "is a pandas.Index"),
    "a period": (lambda: pd.Period("2026-01", "M"), "is a pandas.Period"),
    "polars of objects": (lambda: pl.DataFrame({"a": [object()]}), "cannot be written: ComputeError"),
    "a lazy frame": (lambda: pl.LazyFrame({"a": [1]}), "LazyFrame"),
    "an expression": (lambda: pl.col("a"), "is a polars.expr.expr.Expr"),
    "an Arrow array": (lambda: pa.array([1]), "is a pyarrow.lib.Int64Array"),
}  # fmt: skip


@pytest.mark.parametrize("make", COME_BACK.values(), ids=COME_BACK)
async def test_a_value_comes_back(make: Callable[[], Any]) -> None:
    value = make()
    async with World(now=NEW_YEAR, takes=minutes(1)) as it:
        it.add(dag("d"))
        it.script("d", "a", returns=value)
        run = it.trigger("d")

        await it.run_until_idle()

        assert it.task("d", run, "a").state == "success", it.task("d", run, "a").reason
        assert_same(read_xcom(it.xcom("d", run, "a") or ""), value)


@pytest.mark.parametrize("refused", REFUSED.values(), ids=REFUSED)
async def test_what_cannot_come_back_fails_its_task(refused: tuple[Callable[[], Any], str]) -> None:
    make, why = refused
    async with World(now=NEW_YEAR, takes=minutes(1)) as it:
        it.add(dag("d"))
        it.script("d", "a", returns=make())
        run = it.trigger("d")

        await it.run_until_idle()

        assert it.task("d", run, "a").state == "failed"
        assert why in (it.task("d", run, "a").reason or "")


LARGE = """
from aiosched import DAG, task

with DAG("d", schedule=None):

    @task
    def make():
        import numpy, pandas, polars, pyarrow

        numbers = numpy.random.default_rng(1).normal(size=(20_000, 2))
        frame = pandas.DataFrame(numbers, index=pandas.date_range("2026", periods=20_000, freq="h", tz="UTC"))
        return {"array": numbers, "pandas": frame, "polars": polars.DataFrame({"a": numbers[:, 0]}),
                "arrow": pyarrow.table({"a": numbers[:, 1]})}

    @task
    def read(found):
        numbers = found["array"]
        assert numbers.shape == (20_000, 2) and numbers.dtype == float
        assert (found["pandas"].to_numpy() == numbers).all() and found["pandas"].index.freqstr == "h"
        assert (found["polars"]["a"].to_numpy() == numbers[:, 0]).all()
        assert found["arrow"]["a"].to_pylist() == numbers[:, 1].tolist()
        return numbers[0]

    @task
    def each(value):
        assert type(value).__name__ == "ndarray" and value.shape == (2,)

    @task
    def rows(first):
        return [first, first]

    each.expand(value=rows(read(make())))
"""


async def test_large_ones_go_through_remote_storage(dsn: str, tmp_path: Path) -> None:
    """With processes: they import the libraries themselves, to read what others made."""
    settings = Settings()
    settings.core.home = tmp_path / "home"
    settings.xcom.remote = f"file://{tmp_path}/xcoms"
    folder = tmp_path / "dags"
    folder.mkdir()
    (folder / "d.py").write_text(LARGE)
    async with Scheduler(dsn=dsn, dags_folder=folder, executor="local", settings=settings) as scheduler:
        run = await scheduler.trigger("d", run_id="r")
        state = await run.wait(PATIENCE)
        async with scheduler.db.acquire() as conn:
            reasons = await conn.fetch("SELECT reason FROM task_instance WHERE reason IS NOT NULL")
            stored = await conn.fetchval("SELECT count(*) FROM xcom WHERE stored IS NOT NULL")
        assert (state, stored) == ("success", 1), reasons
