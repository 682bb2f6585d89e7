"""Checks of an asset: `asset_checks_report` begins once the stock has been counted and is not empty.

The result is on the page of the asset `stock_list`, and in `aiosched assets checks stock_list`. Let `has_rows` return
False: its task fails, and the report waits until a cleared one passes.
"""

import pendulum

from aiosched import Asset, CheckResult, asset_check, dag, task

START = pendulum.datetime(2025, 1, 1, tz="UTC")

stock_list = Asset("stock_list", uri="s3://shop/stock_list")


@dag(schedule="@daily", start_date=START, catchup=False, tags=["example", "assets"])
def asset_checks():
    @task
    def count():
        return {"apples": 12, "pears": 0}

    @asset_check(stock_list)
    def nothing_sold_out(stock):
        missing = [name for name, number in stock.items() if not number]
        if missing:
            return CheckResult("warn", f"sold out: {', '.join(missing)}", {"missing": missing})
        return True

    @asset_check(stock_list, blocking=True, retries=1)
    async def has_rows(stock, outlet_events):
        outlet_events[stock_list].extra["rows"] = len(stock)  # goes with the event, which is that of this task
        return len(stock) > 0

    stock = count()
    nothing_sold_out(stock)
    has_rows(stock)


@dag(schedule=stock_list, start_date=START, catchup=False, tags=["example", "assets"])
def asset_checks_report():
    @task
    def write(triggering_asset_events):
        for asset, events in triggering_asset_events.items():
            print(f"{asset.name} has {events[-1].extra['rows']} rows")

    write()


asset_checks()
asset_checks_report()
