"""Attempts in Celery workers: `celery -A aiosched.executors.celery worker` finds `app` here, made from the settings."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from aiosched.config import load_settings
    from aiosched.config.secret_environment import forget_secrets
    from aiosched.executors.celery.celery_worker import make_worker_app

    settings = load_settings().settings
    forget_secrets()
    app = globals()["app"] = make_worker_app(settings)
    return app
