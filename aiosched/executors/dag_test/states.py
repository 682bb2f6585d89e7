"""State stores in memory, for `dag.test()` and for worlds: nothing expires."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_Place = tuple[Any, ...]


class StatesInMemory:
    """Answers the services `task_state` and `asset_state` (scheduler/services/state_services.py)."""

    def __init__(self) -> None:
        self._values: dict[_Place, dict[str, Any]] = {}

    def of_task(self, run: int, args: Mapping[str, Any]) -> dict[str, Any]:
        """The answer about the store of a task instance."""
        task: _Place = ("task", run, args["task_id"])
        if args["map_index"] is None:
            for place in [place for place in self._values if place[:3] == task]:
                del self._values[place]
            return {}
        return self._answer((*task, args["map_index"]), args)

    def of_asset(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """The answer about the store of an asset; here an asset is told apart by what the task calls it."""
        return self._answer(("asset", args.get("asset") or args.get("uri")), args)

    def _answer(self, place: _Place, args: Mapping[str, Any]) -> dict[str, Any]:
        values = self._values.setdefault(place, {})
        match args["do"]:
            case "get":
                return {"found": args["key"] in values, "value": values.get(args["key"])}
            case "set":
                values[args["key"]] = args["value"]
            case "delete":
                values.pop(args["key"], None)
            case _:
                values.clear()
        return {}
