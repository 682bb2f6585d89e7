"""A web application with a scheduler inside: requests start runs, and are served while DAGs run.

    pip install . fastapi uvicorn
    uvicorn --app-dir examples/embedding app:app

    curl -X POST 'localhost:8000/reports?city=Utrecht'      {"run_id": "manual__…"}
    curl localhost:8000/reports/manual__…                   {"run_id": "manual__…", "state": "success"}

Without AIOSCHED_DSN the embedded PostgreSQL starts in the folder `.aiosched`. With `--workers 4` each process is
one more scheduler of the same fleet, and each run happens once.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pendulum
from fastapi import FastAPI, HTTPException

from aiosched import Scheduler, dag, task
from aiosched.errors import NotFound


@dag(
    schedule=None,
    start_date=pendulum.datetime(2025, 1, 1, tz="UTC"),
    catchup=False,
    params={"city": "Amsterdam"},
)
def report():
    """Ask three services at the same time, then write one line. Everything waits on the application's own loop."""

    @task
    async def ask(service: str, params=None) -> str:
        await asyncio.sleep(0.2)
        return f"{service} of {params['city']}"

    @task
    async def write(answers: list[str]) -> str:
        return ", ".join(answers)

    write([ask.override(task_id=f"ask_{name}")(name) for name in ("weather", "traffic", "events")])


@dag(schedule="* * * * *", start_date=pendulum.datetime(2025, 1, 1, tz="UTC"), catchup=False)
def housekeeping():
    """Once a minute, whether a client asks or not."""

    @task
    async def tidy_up() -> None:
        await asyncio.sleep(0.1)

    tidy_up()


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with Scheduler(dags=[report(), housekeeping()], migrate=True) as scheduler:
        app.state.scheduler = scheduler
        yield


app = FastAPI(title="Reports", lifespan=lifespan)


@app.post("/reports", status_code=202)
async def ask_for_a_report(city: str = "Amsterdam") -> dict[str, str]:
    """Start a run; it goes on while other requests are served."""
    run = await app.state.scheduler.trigger("report", conf={"city": city})
    return {"run_id": run.run_id}


@app.get("/reports/{run_id}")
async def state_of_a_report(run_id: str) -> dict[str, str]:
    try:
        state = await app.state.scheduler.run_state("report", run_id)
    except NotFound as error:
        raise HTTPException(404, str(error)) from None
    return {"run_id": run_id, "state": state}


@app.get("/health")
async def health() -> dict[str, str]:
    return {"status": "ok"}
