"""Assets: DAGs that run because others have made something, not because of the clock.

`assets_orders` and `assets_customers` make assets. The second decides while it runs which ones: its outlet is
an alias. `assets_report` runs when both have new events, `assets_alert` when at least one has, and `assets_nightly`
every night and whenever there are orders. `assets_summary` is the short form: a function that makes an asset,
whose DAG and asset have its name. Try `aiosched assets list` and `aiosched assets emit orders`.
"""

import pendulum

from aiosched import Asset, AssetAlias, Metadata, asset, dag, task
from aiosched.timetables import AssetOrTimeSchedule

START = pendulum.datetime(2025, 1, 1, tz="UTC")

orders = Asset("orders", uri="s3://shop/orders", extra={"team": "sales"})
customer_files = AssetAlias("customer_files")


@dag(schedule="@once", start_date=START, catchup=False, tags=["example", "assets"])
def assets_orders():
    @task(outlets=[orders])
    def load():
        rows = 3
        yield Metadata(orders, {"rows": rows})  # goes with the event
        return rows

    load()


@dag(schedule="@once", start_date=START, catchup=False, tags=["example", "assets"])
def assets_customers():
    @task(outlets=[customer_files])
    async def export(outlet_events):
        for country in ("nl", "be"):
            file = Asset(f"customers_{country}", uri=f"s3://shop/customers/{country}.csv")
            outlet_events[customer_files].add(file, extra={"country": country})

    export()


@dag(schedule=[orders, customer_files], start_date=START, catchup=False, tags=["example", "assets"])
def assets_report():
    @task
    async def write(triggering_asset_events):
        for made, events in triggering_asset_events.items():
            print(f"{made.name} at {made.uri}: {[event.extra for event in events]}")

    write()


@dag(schedule=orders | customer_files, start_date=START, catchup=False, tags=["example", "assets"])
def assets_alert():
    @task(inlets=[orders])
    def tell(inlet_events):
        print(f"orders have changed {len(inlet_events[orders])} times so far")

    tell()


@dag(
    schedule=AssetOrTimeSchedule(timetable="0 3 * * *", assets=orders),
    start_date=START,
    catchup=False,
    tags=["example", "assets"],
)
def assets_nightly():
    @task
    def check(dag_run):
        print(f"this run is {dag_run.run_type}")

    check()


@asset(schedule=orders, uri="s3://shop/summary", start_date=START, catchup=False, tags=["example", "assets"])
def assets_summary(self, triggering_asset_events):
    rows = [event.extra.get("rows") for event in triggering_asset_events.get(orders, ())]
    print(f"{self.uri} is made of {rows}")


assets_orders()
assets_customers()
assets_report()
assets_alert()
assets_nightly()
