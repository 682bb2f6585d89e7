"""In-memory XComs and services for `dag.test()`, instead of a scheduler.

There are no other DAGs. So that a DAG that waits for others can be tested alone, those count as successful: a DAG that
it triggers succeeds at once, and so does every run and task of another DAG that it queries. Each such case is logged.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from aiosched.core.values.messages import XComPairs, XComRef
from aiosched.errors import NotFound
from aiosched.executors.dag_test.states import StatesInMemory

log = logging.getLogger(__name__)

MemoryService = Callable[["Memory", Mapping[str, Any]], Awaitable[Any]]


class Memory:
    """The run's XComs, and the services by name. Implements TaskServices."""

    def __init__(
        self, states: Callable[[], Sequence[tuple[str, int, str | None]]], *, dag_id: str, run_id: str
    ) -> None:
        self.values: dict[tuple[str, str], dict[int, str]] = {}  # (task id, key) -> map index -> JSON text
        self._variables: dict[str, str] = {}
        self._stores = StatesInMemory()
        self._states, self._dag_id, self._run_id = states, dag_id, run_id

    def forget(self, task_id: str, map_index: int) -> None:
        """Drop the XComs of an instance whose next try begins."""
        for (owner, _), values in self.values.items():
            if owner == task_id:
                values.pop(map_index, None)

    async def get_xcoms(self, run: int, refs: Sequence[XComRef]) -> list[XComPairs]:
        """See TaskServices."""
        found: list[XComPairs] = []
        for ref in refs:
            values = self.values.get((ref.task_id, ref.key), {})
            wanted = values if ref.map_index is None else {ref.map_index} & values.keys()
            found.append([(index, values[index]) for index in sorted(wanted)])
        return found

    async def get_previous_xcoms(self, run: int, ref: XComRef) -> XComPairs:
        """Nothing: there is no earlier run."""
        return []

    async def call(self, run: int, name: str, args: str) -> str:
        """See TaskServices."""
        service = MEMORY_SERVICES.get(name)
        if service is None:
            raise NotFound(f"dag.test() has no database, so it cannot answer {name!r} ({args}).")
        return json.dumps(await service(self, json.loads(args)))

    async def trigger_dag(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Nothing is triggered; the run counts as successful."""
        run_id = args.get("run_id") or f"manual__{args.get('logical_date') or 'dag_test'}"
        log.info("dag.test() triggers no other DAG: run %s of %s counts as successful", run_id, args["dag_id"])
        return {"run_id": run_id, "is_paused": False}

    async def clear_run(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Nothing is cleared."""
        return {"run_id": args["run_id"]}

    async def run_state(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """A run of another DAG counts as successful; this run is running."""
        state = "running" if self._is_ours(args) else "success"
        return {"dag_exists": True, "run": {"run_id": args.get("run_id") or self._run_id, "state": state}}

    async def task_states(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Tasks of another DAG count as successful; those of this run have their real states."""
        task_ids = list(args.get("task_ids") or ())
        run = await self.run_state(args)
        if self._is_ours(args):
            group = args.get("group_id")
            tasks = [one for one in self._states() if one[0] in task_ids or (group and one[0].startswith(f"{group}."))]
        else:
            tasks = [(task_id, -1, "success") for task_id in task_ids or [f"{args.get('group_id')}.*"]]
        return {**run, "unknown": [], "tasks": tasks}

    async def ask_input(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Nobody can answer: a question has its defaults at once."""
        log.info("dag.test() asks nobody: %s", args["question"]["subject"])
        return {"nobody": True}

    async def close_input(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Nothing is stored."""
        return {}

    async def variable(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Variables come from the environment, or were set by the run itself."""
        if "set" in args:
            self._variables[args["set"]] = args["value"]
        elif "delete" in args and self._variables.pop(args["delete"], None) is None:
            raise NotFound(f"There is no variable {args['delete']!r} here, because dag.test() uses no database.")
        return {"value": self._variables.get(args.get("get", "")), "database": False}

    async def connection(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Connections come from the environment."""
        return {"value": None, "database": False}

    async def check_assets(self, args: Mapping[str, Any]) -> dict[str, str]:
        """All assets count as active."""
        return {uri: uri for uri in args["uris"]}

    async def asset_events(self, args: Mapping[str, Any]) -> list[Any]:
        """There are no events."""
        return []

    async def task_state(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """State stores are in memory."""
        return self._stores.of_task(0, args)

    async def asset_state(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """State stores are in memory."""
        return self._stores.of_asset(args)

    async def previous_success(self, args: Mapping[str, Any]) -> None:
        """There is no earlier run."""

    async def previous_run(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """There is no earlier run."""
        return {"run": None, "task": None}

    def _is_ours(self, args: Mapping[str, Any]) -> bool:
        if args["dag_id"] == self._dag_id:
            return True
        log.info("dag.test() knows no other DAG: %s counts as successful", args["dag_id"])
        return False


MEMORY_SERVICES: Mapping[str, MemoryService] = {
    "ask_input": Memory.ask_input,
    "asset_events": Memory.asset_events,
    "asset_state": Memory.asset_state,
    "check_assets": Memory.check_assets,
    "clear_run": Memory.clear_run,
    "close_input": Memory.close_input,
    "connection": Memory.connection,
    "previous_run": Memory.previous_run,
    "previous_success": Memory.previous_success,
    "run_state": Memory.run_state,
    "task_state": Memory.task_state,
    "task_states": Memory.task_states,
    "trigger_dag": Memory.trigger_dag,
    "triggering_asset_events": Memory.asset_events,
    "variable": Memory.variable,
}
