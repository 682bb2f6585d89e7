"""Paths of classes that rows of released versions hold: a file that moves must leave them readable."""

from __future__ import annotations

import importlib

import pytest

from aiosched.authoring.triggers.base import BaseTrigger

# Deferred task instances and asset watchers are stored with the path of their trigger.
STORED = (
    "aiosched.authoring.triggers.external.DagStateTrigger",
    "aiosched.authoring.triggers.external.ExternalTaskTrigger",
    "aiosched.authoring.triggers.file.FileTrigger",
    "aiosched.authoring.triggers.http.HttpTrigger",
    "aiosched.authoring.triggers.temporal.DateTimeTrigger",
    "aiosched.authoring.triggers.temporal.TimeDeltaTrigger",
)


@pytest.mark.parametrize("path", STORED)
def test_a_stored_trigger_is_found(path: str) -> None:
    module, _, name = path.rpartition(".")

    found = getattr(importlib.import_module(module), name)

    assert issubclass(found, BaseTrigger)
    assert f"{found.__module__}.{found.__qualname__}" == path, "what is stored now is what was stored before"
