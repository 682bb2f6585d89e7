"""One seed, from the first machine to the verdict: `simulate(seed)` plays it and returns its history."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, cast
from unittest import mock

import asyncpg

from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.statements import inbox
from aiosched.errors import DatabaseUnreachable
from aiosched.scheduler.runs import incomplete
from tests.simulation.breaks import breaking
from tests.simulation.dialects import Dialects
from tests.simulation.fleet import Machine, VirtualClock, VirtualExecutor, make_scheduler, virtual_time
from tests.simulation.history import Commit, Fault, History, RowChange, SchedulerRemoved
from tests.simulation.loop import WORLD, NothingHappens, VirtualLoop, run
from tests.simulation.network import ModelledConnection, Network
from tests.simulation.people import EVERY, Caretaker
from tests.simulation.store import EPOCH, Change, Store, Transaction
from tests.simulation.waits import Triggers
from tests.simulation.workload import FAULTS_END, Blow, Plan, Request, make_plan, rows_of

_PATIENCE = 900.0  # virtual seconds after the last fault in which everything must have ended: runs of a DAG one by one
_STANDSTILL = 2.0  # and then nothing moves for so long: a machine that is only now started again gets its share first
_UNFINISHED = ("queued", "running")


class Weather:
    """The network of a seed: it may delay, cut, lose and double, until it is `calm`."""

    def __init__(self, random: Random, rough: float, latency: float) -> None:
        self._random, self._rough, self._latency, self.calm = random, rough, latency, False

    def is_calm(self) -> bool:
        return self.calm

    def _bad(self, share: float) -> bool:
        return not self.calm and self._random.random() < share * self._rough

    def delay(self, node: int) -> float:
        if node and self._bad(0.01):
            return self._random.choice((0.05, 0.3, 2.0)) * self._random.random()
        return 0.0002 + self._latency * self._random.random()

    def cuts(self, node: int, text: str) -> str | None:
        if node and self._bad(0.03 if text == "COMMIT" or text.lstrip().startswith("WITH fence") else 0.006):
            return self._random.choice(("before", "late", "after"))
        return None

    def notices(self, node: int) -> int:
        return self._random.choice((0, 0, 2)) if self._bad(0.2) else 1

    def notices_death(self) -> float:
        return 0.001 if self.calm else self._random.choice((0.001, 0.2, 1.5)) * self._random.random()

    def twice(self) -> bool:
        return self._bad(0.05)


class Simulation:
    """A fleet on a modelled database."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.history = History(plan.seed)
        self.loop = VirtualLoop(Random(plan.seed + 1))
        self.store = Store(self.loop)
        for table, rows in rows_of(plan.specs).items():
            self.store.tables[table].update(rows)
        self.store.on_commit = self._committed
        self.weather = Weather(Random(plan.seed + 2), plan.rough, plan.latency)
        dialects = Dialects(self.is_newer, self.history.seen)
        self.network = Network(self.loop, self.store, self.weather, on_cut=self._cut, dialects=dialects)
        self.newer: set[int] = set()  # machines that run the newer version
        self.versions = Random(f"{plan.seed}, versions")
        self.is_mixed = plan.ends_as is not None
        self.clock = VirtualClock(self.loop)
        self.triggers = Triggers(
            plan.seed,
            plan.behaviour.waits,
            plan.retries,
            self.history,
            Random(plan.seed + 4),
            self.loop.time,
            self.weather.is_calm,
        )
        self.caretaker = Caretaker(plan, self.store.tables, self._asked)
        self.machines: list[Machine] = []
        self.loop.set_exception_handler(self._unhandled)

    # -- noting down

    def _committed(self, transaction: Transaction, changes: list[Change]) -> None:
        at, node = self.loop.time(), transaction.backend.node
        found = [RowChange(*change) for change in changes]
        for change in found:
            if change.table == "scheduler" and change.new is None:
                self._left(change.key, node)
        self.history.events.append(Commit(at, node, transaction.fence, found))
        self.history.seen["commits"] += 1

    def _left(self, incarnation: int, node: int) -> None:
        """A scheduler's row is gone: it left, or somebody declared it dead."""
        owner = next((m for m in self.machines if m.number == node), None)
        if owner is None or owner.incarnation != incarnation:
            gone = incarnation not in self.store.advisory
            self.history.events.append(SchedulerRemoved(self.loop.time(), incarnation, gone))
            self.history.seen["take-overs"] += 1

    def is_newer(self, node: int) -> bool:
        return node in self.newer

    def note_error(self) -> None:
        """A function is about to raise for one DAG."""
        self.history.seen["errors about one DAG"] += 1

    def _cut(self, node: int, when: str, text: str) -> None:
        if when != "before" and (text == "COMMIT" or text.lstrip().startswith("WITH fence")):
            self.history.seen["unknown commits"] += 1
        self.history.seen["cut connections"] += 1

    def _unhandled(self, loop: Any, context: dict[str, Any]) -> None:
        if not self.network.closed:
            error = context.get("exception")
            self.history.troubles.append(f"{context.get('message')}: {error!r}")

    # -- machines

    def add_machine(self) -> Machine:
        number = len(self.machines) + 1
        newer = self.versions.random() < 0.5 if self.is_mixed else self.plan.ends_as == "newer"
        self.newer |= {number} if newer else set()
        executor = VirtualExecutor(
            number,
            self.clock,
            self.plan.behaviour,
            self.history,
            self.weather.twice,
            64,
            self.triggers,
        )
        scheduler = make_scheduler(
            self.network, number, self.clock, executor,
            lease=self.plan.lease, parallelism=self.plan.parallelism, safety_poll=3.0,
            max_triggers=self.plan.max_triggers, fernet_keys=self._keys(number),
        )  # fmt: skip
        life = self.loop.spawn(number, self._live(scheduler))
        machine = Machine(number, scheduler, executor, life)
        self.machines.append(machine)
        self._note(machine, "start")
        return machine

    def _keys(self, machine: int) -> str:
        """Those of the plan; in the middle of a rotation machines encrypt with different ones."""
        keys = self.plan.keys
        return ",".join(keys if machine % 2 else keys[::-1])

    async def _live(self, scheduler: Any) -> None:
        while True:
            try:
                await scheduler.start()
                break
            except (asyncpg.PostgresConnectionError, DatabaseUnreachable):  # whoever starts services starts them again
                await asyncio.sleep(0.5)
        await scheduler.failed

    def _note(self, machine: Machine, what: str) -> None:
        self.history.events.append(Fault(self.loop.time(), machine.number, what))
        self.history.seen[what] += 1

    def kill(self, machine: Machine) -> None:
        """The process is gone at once, its tasks with it."""
        machine.state = "dead"
        self.loop.frozen.discard(machine.number)
        self.loop.dead.add(machine.number)
        self.network.unreachable.pop(machine.number, None)
        self._note(machine, "kill")
        self.network.disconnect(machine.number)

    def _strike(self, blow: Blow) -> None:
        if blow.what == "join":
            if sum(m.state in ("up", "frozen") for m in self.machines) < 4:
                self.add_machine()
            return
        up = [m for m in self.machines if m.state == "up"]
        if not up:
            return
        machine = up[blow.machine % len(up)]
        match blow.what:
            case "kill":
                self.kill(machine)
                self.loop.call_later(blow.seconds / 3, self.add_machine)
            case "freeze":
                machine.state = "frozen"
                self.loop.frozen.add(machine.number)
                self._note(machine, "freeze")
                self.loop.call_later(blow.seconds, self._thaw, machine)
            case "cut":
                self._note(machine, "cut")
                self.network.disconnect(machine.number)
            case "cut_lease":
                self._note(machine, "cut lease")
                for connection in list(self.network.connections.get(machine.number, ())):
                    if connection.name == "aiosched lease":
                        connection.break_()
            case "isolate":
                self._note(machine, "isolate")
                back = self.network.unreachable[machine.number] = asyncio.Event()
                self.loop.call_later(blow.seconds, self._rejoin, machine, back)
            case "leave":
                machine.state = "leaving"
                self._note(machine, "leave")
                self.loop.spawn(machine.number, self._leave(machine))
                self.loop.call_later(blow.seconds, self.add_machine)

    def _thaw(self, machine: Machine) -> None:
        if machine.state == "frozen":
            machine.state = "up"
            self.loop.frozen.discard(machine.number)
            self._note(machine, "thaw")

    def _rejoin(self, machine: Machine, back: asyncio.Event) -> None:
        if self.network.unreachable.get(machine.number) is back:
            del self.network.unreachable[machine.number]
        back.set()

    async def _leave(self, machine: Machine) -> None:
        await machine.scheduler.stop(grace=2.0)
        machine.state = "gone"

    # -- people

    async def _ask(self, request: Request) -> None:
        conn = ModelledConnection(self.network, WORLD, "people")
        await inbox.send_request(
            cast("DatabaseConnection", conn),
            verb=request.verb,
            dag_id=request.dag_id,
            args=request.args,
            requested_by="people",
        )
        await conn.close()

    def _asked(self, request: Request) -> None:
        self.network.run_at_server(self._ask(request))

    def _look_after(self) -> None:
        self.caretaker.look(self.loop.time())
        self.loop.call_later(EVERY, self._look_after)

    # -- from beginning to end

    async def play(self) -> None:
        plan = self.plan
        self.loop.call_later(EVERY, self._look_after)
        for _ in range(plan.machines):
            self.add_machine()
        for request in plan.requests:
            self.loop.call_at(request.at, self._asked, request)
        for blow in plan.blows:
            self.loop.call_at(blow.at, self._strike, blow)
        await asyncio.sleep(FAULTS_END)
        self._heal()
        self._agree_on_a_version()
        until = self.loop.time() + _PATIENCE
        while self.loop.time() < until:
            over, fleet = self._over(), self._fleet()
            await asyncio.sleep(_STANDSTILL if over else 1.0)
            if any(m.state == "up" and m.life.done() for m in self.machines):
                return  # a scheduler that ends by itself is a fault of its own
            if over and self._over() and self._fleet() == fleet:
                return
            self._heal()

    def _heal(self) -> None:
        self.weather.calm = True
        for machine in self.machines:
            self._thaw(machine)
        for number, back in list(self.network.unreachable.items()):
            del self.network.unreachable[number]
            back.set()
        if not any(m.state == "up" for m in self.machines):
            self.add_machine()

    def _agree_on_a_version(self) -> None:
        """The upgrade is completed, or it is rolled back."""
        self.is_mixed = False
        for machine in [m for m in self.machines if m.state == "up"] if self.plan.ends_as is not None else ():
            if self.is_newer(machine.number) != (self.plan.ends_as == "newer"):
                self.add_machine()
                machine.state = "leaving"
                self._note(machine, "another version")
                self.loop.spawn(machine.number, self._leave(machine))

    def _over(self) -> bool:
        tables = self.store.tables
        created = dict.fromkeys(self.plan.intervals, 0)
        for run_ in tables["dag_run"].values():
            if run_["state"] in _UNFINISHED:
                return False
            if run_["run_type"] in ("scheduled", "backfill") and run_["logical_date"] >= EPOCH:
                created[run_["dag_id"]] += 1  # a backfill may have taken a scheduled run
        waiting = any(request["state"] == "waiting" for request in tables["request"].values())
        waiting |= any(row["tried_at"] is None for row in tables["dag_quarantine"].values())
        calling = any(row["given_up_at"] is None for row in tables["callback_outbox"].values())
        alive, owners = self._fleet()
        same = tables["scheduler"].keys() == alive and set(owners.values()) <= alive
        reports = tables["task_report"]  # one of another version is read, or deleted, at a poll
        return created == self.plan.intervals and not (waiting or calling or reports) and same

    def _fleet(self) -> tuple[set[int], dict[int, int | None]]:
        """The incarnations that are alive, and whom each partition belongs to."""
        alive = {m.incarnation for m in self.machines if m.state == "up" and not m.life.done()}
        return alive, {key: row["incarnation"] for key, row in self.store.tables["partition_lease"].items()}

    def finish(self) -> History:
        """Note down how it ended."""
        history = self.history
        history.tables = {table: dict(rows) for table, rows in self.store.tables.items()}
        up = [m for m in self.machines if m.state == "up"]
        history.living = {m.incarnation for m in up}
        history.deadlocks = self.store.deadlocks
        for machine in up:
            if machine.life.done():
                history.troubles.append(
                    f"the scheduler of machine {machine.number} ended: {machine.life.exception()!r}"
                )
                continue
            metrics = machine.scheduler.metrics
            history.memory += list(self._differences(machine))
            history.seen["recoveries"] += metrics.recoveries
            history.seen["stale reports dropped"] += metrics.stale_reports
        history.seen["turns"] = self.loop.turns
        return history

    def _differences(self, machine: Machine) -> Iterator[str]:
        """Where what a scheduler holds is not what the rows say."""
        session = machine.scheduler.session
        assert session is not None
        tables, cache = self.store.tables, session.cache
        owned = {p for p, row in tables["partition_lease"].items() if row["incarnation"] == session.env.incarnation}
        if owned != cache.partitions:
            yield f"machine {machine.number} holds partitions {cache.partitions ^ owned} otherwise than stored"
        for board in cache.boards.values():
            for i in board:
                row = tables["task_instance"].get((board.run.key, i.task, i.map_index))
                if row is None or (row["state"], row["try_number"]) != (i.state.stored, i.try_number):
                    yield f"machine {machine.number} holds {board.key(i)} as {i.state}, the row is {row}"
        for dag in cache.dags.values():
            if dag.room.active:
                yield f"machine {machine.number} counts {dag.room.active} active tasks of {dag.row.dag_id}"

    async def tear_down(self) -> None:
        """Let every task find its way out: nothing of this is part of the history."""
        self.network.closed = True
        self.loop.resurrect()
        for connections in list(self.network.connections.values()):
            for connection in list(connections):
                connection.break_()
        this = asyncio.current_task()
        while left := [task for task in asyncio.all_tasks() if task is not this]:
            for task in left:
                task.cancel()
            await asyncio.wait(left, timeout=1.0)
        for machine in self.machines:
            if machine.life.done() and not machine.life.cancelled():
                machine.life.exception()


def simulate(seed: int, plan: Plan | None = None, *, meddle: Callable[[Simulation], None] | None = None) -> History:
    """Play a seed; the same seed plays the same history. `meddle` may add to what happens."""
    plan = plan or make_plan(seed)
    with _quietly(), mock.patch.object(incomplete, "PART", plan.part):
        simulation = Simulation(plan)
        if meddle is not None:
            meddle(simulation)
        loop = simulation.loop
        with virtual_time(loop):
            try:
                with breaking(simulation.plan.breaks, loop.time, simulation.note_error):
                    run(loop, simulation.play())
            except NothingHappens:
                simulation.history.troubles.append("nothing happens any more")
            history = simulation.finish()
            simulation.history = History(seed)  # what follows is of no interest
            simulation.store.on_traffic = lambda traffic: None
            with contextlib.suppress(NothingHappens):
                run(loop, simulation.tear_down())
        loop.close()
    return history


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Without the warnings of the scheduler, which is warned all the time, and without pauses of the collector."""
    logger = logging.getLogger("aiosched")
    level, collecting = logger.level, gc.isenabled()
    logger.setLevel(logging.CRITICAL + 1)
    gc.disable()
    try:
        yield
    finally:
        logger.setLevel(level)
        if collecting:
            gc.enable()
