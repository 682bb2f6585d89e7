"""React to what happens elsewhere: a watcher makes events of an asset, and the DAG runs for each of them.

The trigger runs beside the scheduler as long as an unpaused DAG is scheduled on the asset. Unlike the trigger of a task
it goes on after an event: it yields once for each new event. It starts again after a restart, so it remembers
elsewhere what it has reported (here: it reports one letter, and then waits).
"""

import asyncio

import pendulum

from aiosched import DAG, Asset, AssetWatcher, task
from aiosched.triggers import BaseTrigger, TriggerEvent


class LetterBox(BaseTrigger):
    def __init__(self, street: str) -> None:
        self.street = street

    async def run(self):
        await asyncio.sleep(0.2)  # ask a queue, an API or a folder here
        yield TriggerEvent({"street": self.street, "letters": 1})
        await asyncio.Event().wait()


mail = Asset("mail", watchers=[AssetWatcher("letter_box", LetterBox("Domplein"))])

with DAG(
    "asset_watcher",
    schedule=mail,
    start_date=pendulum.datetime(2025, 1, 1, tz="UTC"),
    catchup=False,
    tags=["example"],
):

    @task
    def read(triggering_asset_events) -> list[str]:
        events = [event for events in triggering_asset_events.values() for event in events]
        return [f"{event.extra['payload']['letters']} for {event.extra['payload']['street']}" for event in events]

    read()
