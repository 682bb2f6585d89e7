"""`/version`, `/monitor/health`, and `/auth/token`, which gives scripts a token for a name and a password."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from aiosched.db.people import accounts as people
from aiosched.web.airflow_api.shapes import instant
from aiosched.web.auth.access import Role, allow
from aiosched.web.auth.accounts import Accounts, rights_of
from aiosched.web.auth.passwords import hash_token, new_token
from aiosched.web.requests.request_client import TheRequestClient
from aiosched.web.views import health
from aiosched.web.views.health import Status

router: APIRouter = APIRouter()
auth_router: APIRouter = APIRouter()

VERSION: Final = "3.3.2"  # of the API whose subset this is
TOKEN_LIFE: Final = timedelta(days=1)


class LoginBody(BaseModel):
    """A user's name and password."""

    username: Annotated[str, Field(max_length=200)]
    password: Annotated[str, Field(max_length=1000)]


@router.get("/version")
@allow(Role.PUBLIC)
async def get_version() -> dict[str, Any]:
    """The version of Airflow whose API this is a subset of."""
    return {"version": VERSION, "git_version": None}


@router.get("/monitor/health")
@allow(Role.PUBLIC)
async def get_health(request: Request) -> dict[str, Any]:
    """Whether the database answers and a scheduler is alive; it runs triggers and parses files, too."""
    found: health.Health = await request.app.state.health.get()
    alive = [row for row in found.schedulers if row.alive]
    beat = None
    if alive:
        beat = instant(datetime.now(UTC) - timedelta(seconds=min(row.lease_age for row in alive)))
    status = "healthy" if alive else "unhealthy"
    database = "unhealthy" if found.parts["database"].status is Status.UNHEALTHY else "healthy"
    return {
        "metadatabase": {"status": database},
        "scheduler": {"status": status, "latest_scheduler_heartbeat": beat},
        "triggerer": {"status": status, "latest_triggerer_heartbeat": beat},
        "dag_processor": {"status": status, "latest_dag_processor_heartbeat": beat},
    }


@auth_router.post("/token", status_code=201)
@allow(Role.PUBLIC)
async def create_token(request: Request, request_client: TheRequestClient, body: LoginBody) -> dict[str, str]:
    """A token that is valid for a day, with the role of its user. Without a login any token does."""
    accounts = request.app.state.authenticator
    token = new_token()
    if isinstance(accounts, Accounts):
        login = await accounts.check(request, body.username, body.password)
        most = request_client.settings.web.max_token_days
        life = min(TOKEN_LIFE, timedelta(days=most)) if most else TOKEN_LIFE
        expires, role = datetime.now(UTC) + life, max(rights_of(login.held).possible, Role.VIEWER).word
        await people.create_token(request_client.db, login.name, people.LOGIN_LABEL, hash_token(token), role, expires)
    return {"access_token": token}
