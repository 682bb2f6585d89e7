"""The services of scheduler/services/task_services.py for operators that act in a world, from its rows.

Nothing here waits. Variables and connections come from the environment, from the world, and from what tasks have set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from aiosched.core.graph.human_input import InputRequest
from aiosched.core.graph.spec import DagSpec, TaskSpec
from aiosched.core.run.board import Run
from aiosched.core.values.asset_checks import read_report
from aiosched.core.values.messages import FoundXComs, XComPairs, XComRef, XComSearch
from aiosched.core.values.states import RunState, RunType
from aiosched.db.assets.assets import NewAssetEvent
from aiosched.errors import NotFound, Refused
from aiosched.executors.dag_test import StatesInMemory
from aiosched.testing.rows.assets import WorldCheck, mentioned_names, names_by_uri

if TYPE_CHECKING:
    from aiosched.testing.people import People

_SERVICES: Final = (
    "ask_input", "asset_check", "asset_events", "asset_state", "check_assets", "clear_run", "close_input", "connection",
    "previous_run", "previous_success", "run_state", "task_state", "task_states", "trigger_dag",
    "triggering_asset_events", "variable", "xcoms",
)  # fmt: skip


class WorldServices:
    """Implements `core.messages.TaskServices`."""

    def __init__(
        self,
        world: People,
        variables: Mapping[str, Any] | None = None,
        connections: Mapping[str, str | Mapping[str, Any]] | None = None,
    ) -> None:
        self.world = world
        self.variables: dict[str, str] = texts_of(variables or {})
        self.connections: Mapping[str, str | Mapping[str, Any]] | dict[str, str | Mapping[str, Any]] = connections or {}
        self.questions: dict[tuple[int, int, int], InputRequest] = {}  # by run, task index and map index
        self.stores: StatesInMemory = StatesInMemory()

    async def get_xcoms(self, run: int, refs: Sequence[XComRef]) -> list[XComPairs]:
        """See TaskServices."""
        return [self._xcoms(run, ref) for ref in refs]

    async def call(self, run: int, name: str, args: str) -> str:
        """See TaskServices."""
        if name not in _SERVICES:
            raise NotFound(f"A world does not answer {name!r}; it answers {', '.join(_SERVICES)}.")
        return msgspec.json.encode(getattr(self, name)(run, msgspec.json.decode(args))).decode()

    def _xcoms(self, run: int, ref: XComRef) -> XComPairs:
        indexes = [index for index, task in enumerate(self._tasks(run)) if task.task_id == ref.task_id]
        rows = self.world.rows
        places = [place for index in indexes for place in rows.instances.get(run, ()) if place[0] == index]
        places = sorted(place for place in places if ref.map_index in (None, place[1]))
        key = ref.key_among(key for (of, *place, key) in rows.xcoms if of == run and tuple(place) in places)
        found = [] if key is None else [(place[1], rows.xcoms.get((run, *place, key))) for place in places]
        return [(at, text) for at, text in found if text is not None]

    def _tasks(self, run: int) -> Sequence[TaskSpec]:
        rows = self.world.rows
        return rows.versions[rows.runs[run].version_id].spec.tasks

    def _earlier(self, run: int, before: datetime | None = None) -> list[Run]:
        """The runs of the DAG with an earlier logical date (than `before`, if given), the latest first."""
        rows = self.world.rows
        dag_id, date = rows.runs[run].dag_id, before or rows.runs[run].logical_date
        dated = [(other.logical_date, other.key) for key in rows.of_dag[dag_id] if (other := rows.runs[key])]
        earlier = sorted(((at, key) for at, key in dated if at and date and at < date), reverse=True)
        return [rows.runs[key] for _, key in earlier]

    def _spec(self, dag_id: str) -> DagSpec | None:
        rows = self.world.rows
        return rows.versions[rows.dags[dag_id].version_id].spec if dag_id in rows.dags else None

    def _find(self, args: Mapping[str, Any]) -> Run | None:
        rows, run_id, date = self.world.rows, args.get("run_id"), args.get("logical_date")
        runs = [rows.runs[key] for key in rows.of_dag.get(str(args["dag_id"]), ())]
        if args.get("newest"):
            return runs[-1] if runs else None
        at = None if date is None else datetime.fromisoformat(date)
        return next((run for run in runs if run.run_id == run_id or (at is not None and run.logical_date == at)), None)

    # -- by name ----------------------------------------------------------------------------

    def xcoms(self, run: int, args: Mapping[str, Any]) -> FoundXComs:
        """As `aiosched.scheduler.services.xcom_services` does; a world has no teams."""
        search, rows = msgspec.convert(args, XComSearch), self.world.rows
        own = rows.runs[run]
        dag_id = search.dag_id or own.dag_id
        named = None
        if search.run_id is not None or dag_id == own.dag_id or not search.earlier:
            named = self._find({"dag_id": dag_id, "run_id": search.run_id or own.run_id})
        since = named or (own if search.run_id is None else None)
        runs = [] if named is None else [named]
        if search.earlier and since is not None:
            others = [(_date(other), other.key) for other in map(rows.runs.__getitem__, rows.of_dag.get(dag_id, ()))]
            until = _date(since)
            runs += [rows.runs[key] for at, key in sorted(others, reverse=True) if at <= until]
        hint = None
        if dag_id not in rows.dags:
            hint = f"There is no DAG {dag_id!r} in the world, so nothing is found: add it."
        elif named is None and not (search.earlier and search.run_id is None):
            hint = f"The DAG {dag_id!r} has no run {search.run_id or own.run_id!r}, so nothing is found."
        found = [next(filter(None, (self._xcoms(one.key, ref) for one in runs)), []) for ref in search.refs]
        return FoundXComs(pairs=found, hint=hint)

    def trigger_dag(self, run: int, args: Mapping[str, Any]) -> dict[str, Any]:
        dag_id, rows = str(args["dag_id"]), self.world.rows
        if dag_id not in rows.dags:
            raise NotFound(f"There is no DAG {dag_id!r} to trigger: add it to the world.")
        is_paused = rows.dags[dag_id].is_paused
        if is_paused and args.get("fail_when_paused"):
            raise Refused(f"DAG {dag_id!r} is paused: its run would wait. Unpause it.")
        dates: dict[str, Any] = {
            name: datetime.fromisoformat(args[name]) for name in ("logical_date", "run_after") if args.get(name)
        }
        named: dict[str, Any] = {name: args.get(name) for name in ("conf", "run_id", "partition_key")}
        run_id = self.world.trigger(dag_id, **named, **dates)
        return {"run_id": run_id, "is_paused": is_paused}

    def clear_run(self, run: int, args: Mapping[str, Any]) -> dict[str, Any]:
        self.world.clear(str(args["dag_id"]), [str(args["run_id"])])
        return {"run_id": args["run_id"]}

    def run_state(self, run: int, args: Mapping[str, Any]) -> dict[str, Any]:
        return {"dag_exists": args["dag_id"] in self.world.rows.dags, "run": _shown(self._find(args))}

    def task_states(self, run: int, args: Mapping[str, Any]) -> dict[str, Any]:
        task_ids, group_id = list(args.get("task_ids") or ()), args.get("group_id")
        spec, found = self._spec(str(args["dag_id"])), self._find(args)
        unknown: list[str] = []
        if spec is not None:
            unknown = [task_id for task_id in task_ids if task_id not in {task.task_id for task in spec.tasks}]
            unknown += [group_id] if group_id and group_id not in {group.group_id for group in spec.groups} else []
        tasks = [] if found is None else self._states(found, task_ids, group_id)
        return {"dag_exists": spec is not None, "unknown": unknown, "run": _shown(found), "tasks": tasks}

    def _states(self, run: Run, task_ids: Sequence[str], group_id: str | None) -> list[tuple[str, int, str | None]]:
        meant = {
            index: task.task_id
            for index, task in enumerate(self._tasks(run.key))
            if task.task_id in task_ids or (group_id and _is_in(task.group_id, group_id))
        }
        rows = sorted(self.world.rows.instances.get(run.key, {}).items())
        return [(meant[index], map_index, row.state) for (index, map_index), row in rows if index in meant]

    def previous_success(self, run: int, args: Mapping[str, Any]) -> dict[str, Any] | None:
        found = next((before for before in self._earlier(run) if before.state is RunState.SUCCESS), None)
        if found is None:
            return None
        return {
            "data_interval_start": found.interval_start,
            "data_interval_end": found.interval_end,
            "start_date": found.start_date,
            "end_date": found.end_date,
        }

    def previous_run(self, run: int, args: Mapping[str, Any]) -> dict[str, Any]:
        before = args.get("before") and datetime.fromisoformat(args["before"])
        for found in self._earlier(run, before):
            task = self._row_of(found.key, args["task_id"], args["map_index"])
            if (
                args.get("state") in (None, found.state)
                and (args.get("task_state") is None or (task is not None and task.state == args["task_state"]))
                and not (args.get("planned_only") and found.run_type is RunType.MANUAL)
            ):
                return {"run": _facts(found), "task": None if task is None else _some(task, _OF_A_TASK)}
        return {"run": None, "task": None}

    def _row_of(self, run: int, task_id: str, map_index: int) -> Any:
        indexes = [index for index, task in enumerate(self._tasks(run)) if task.task_id == task_id]
        rows = self.world.rows.instances.get(run, {})
        return next((rows[index, map_index] for index in indexes if (index, map_index) in rows), None)

    def check_assets(self, run: int, args: Mapping[str, Any]) -> dict[str, str]:
        specs = self.world.rows.living_specs()
        found, known = names_by_uri(specs), mentioned_names(specs, self.world.rows.assets.aliases)
        missing = [name for name in args["names"] if name not in known]
        missing += [uri for uri in args["uris"] if uri not in found]
        if missing:
            raise Refused(f"No DAG of the world mentions the asset {', '.join(map(repr, missing))}: add one that does.")
        return {uri: found[uri] for uri in args["uris"]}

    def asset_check(self, run: int, args: Mapping[str, Any]) -> dict[str, Any]:
        """Of the asset that the DAG says the task checks."""
        report = read_report(args)
        inlets = next((task.inlets for task in self._tasks(run) if task.task_id == report.task_id), ())
        at_uri = names_by_uri(self.world.rows.living_specs())
        for ref in (ref for ref in inlets if ref.is_check):
            asset = at_uri.get(ref.name, ref.name) if ref.kind == "uri" else ref.name
            of = self.world.rows.runs[run]
            self.world.rows.assets.checks.append(
                WorldCheck(asset, of.dag_id, of.run_id, *msgspec.structs.astuple(report))
            )
        return {"is_stored": True}

    def asset_events(self, run: int, args: Mapping[str, Any]) -> list[dict[str, Any]]:
        asked = ("asset", "name"), ("uri", "uri"), ("alias", "alias")
        events = self.world.rows.assets.events
        for key, field in asked:
            if args.get(key):
                events = [event for event in events if getattr(event, field) == args[key]]
        return [self._event(event) for event in events[-int(args["limit"]) :]]

    def triggering_asset_events(self, run: int, args: Mapping[str, Any]) -> list[dict[str, Any]]:
        return [self._event(event) for event in self.world.rows.assets.consumed.get(run, ())]

    def _event(self, event: NewAssetEvent) -> dict[str, Any]:
        source: dict[str, str | None] = {"run_id": None, "task_id": None}
        if event.run_id is not None and event.task_index is not None:
            task = self._tasks(event.run_id)[event.task_index]
            source = {"run_id": self.world.rows.runs[event.run_id].run_id, "task_id": task.task_id}
        return event._asdict() | source | {"extra": msgspec.json.decode(event.extra)}

    def variable(self, run: int, args: Mapping[str, Any]) -> dict[str, Any]:
        if "set" in args:
            self.variables[args["set"]] = args["value"]
        elif "delete" in args and self.variables.pop(args["delete"], None) is None:
            raise NotFound(f"There is no variable {args['delete']!r} in the world.")
        return {"value": self.variables.get(args.get("get", ""))}

    def ask_input(self, run: int, args: Mapping[str, Any]) -> dict[str, Any]:
        place = (run, args["task_index"], args["map_index"])
        self.questions[place] = msgspec.convert(args["question"], InputRequest)
        return {}

    def close_input(self, run: int, args: Mapping[str, Any]) -> dict[str, Any]:
        return {}

    def task_state(self, run: int, args: Mapping[str, Any]) -> dict[str, Any]:
        return self.stores.of_task(run, args)

    def asset_state(self, run: int, args: Mapping[str, Any]) -> dict[str, Any]:
        return self.stores.of_asset(args)

    def connection(self, run: int, args: Mapping[str, Any]) -> dict[str, Any]:
        return {"value": self.connections.get(args["get"])}


_OF_A_RUN: Final = ("run_id", "state", "run_type", "logical_date", "run_after", "start_date", "end_date")
_OF_A_TASK: Final = ("state", "try_number", "start_date", "end_date")


def _date(run: Run) -> datetime:
    return run.logical_date or run.run_after


def _facts(run: Run) -> dict[str, Any]:
    interval = {"data_interval_start": run.interval_start, "data_interval_end": run.interval_end}
    return _some(run, _OF_A_RUN) | interval


def _some(thing: object, names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(thing, name) for name in names}


def texts_of(variables: Mapping[str, Any]) -> dict[str, str]:
    """Variables as they are stored: what is no text becomes JSON."""
    return {
        key: value if isinstance(value, str) else msgspec.json.encode(value).decode()
        for key, value in variables.items()
    }


def _shown(run: Run | None) -> dict[str, Any] | None:
    return None if run is None else {"run_id": run.run_id, "state": run.state, "logical_date": run.logical_date}


def _is_in(group: str | None, wanted: str) -> bool:
    return group is not None and (group == wanted or group.startswith(f"{wanted}."))
