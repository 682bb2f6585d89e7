import time, pytest, asyncio
from tests.scheduler.test_statements_fail_for_one_dag import *
import os
async def test_plain(dsn, clock):
    t=time.time(); r=await scene(dsn, clock, None); print({k:len(v) for k,v in r[0].items()}, r[1:], time.time()-t)
    for x in r[0]["bad"]: print(x)
@pytest.mark.parametrize("name", sorted(functions()))
async def test_each(dsn, clock, name):
    t=time.time()
    try:
        r=await scene(dsn, clock, functions()[name]); what=(r[1],r[2], {k:len(v) for k,v in r[0].items()}, hash(str(r[0]))%9999)
    except BaseException as e:
        what=repr(e)[:700]
    with open("/tmp/each.txt","a") as f: f.write(f"{name} {what} {time.time()-t:.1f}\n")
