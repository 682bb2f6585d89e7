import time
from tests.scheduler.harness import *
from tests.scheduler.scripted_executor import ScriptedExecutor, succeeding
import aiosched.scheduler.slas as slas
async def test_bench(dsn, clock):
    specs=[dag(f"d{i}", task("a", sla=600.0), task("b", after="a", sla=600.0), schedule="@hourly", start_date=NEW_YEAR, catchup=True, tells_missed_slas=True) for i in range(1000)]
    ex=ScriptedExecutor(clock)
    ex.script=succeeding
    spent=[]
    orig=slas._record
    async def timed(*a):
        t=time.perf_counter(); await orig(*a); spent.append(time.perf_counter()-t)
    slas._record=timed
    async with running(dsn, clock, *specs, executor=ex) as it:
        for _ in range(12):
            await it.advance(3600); await it.advance(150)
        print("looks", len(spent), "total", sum(spent), "max", max(spent), "per dag us", 1e6*sum(spent)/len(spent)/50)
        print(await it.fetch("select count(*) from sla_miss"), await it.fetch("select count(*) from dag_run"))
    slas._record=orig
