"""Found from outside: settings go to child processes (web server, peers) as JSON; with a bundle they cannot be read there."""

import json

import pytest

from aiosched.config import Settings

BUNDLES = [
    {"name": "team", "kind": "git", "url": "https://git.example.com/x.git"},
    {"name": "release", "kind": "archive", "url": "https://files.example.com/x.zip"},
    {"name": "local", "kind": "folder", "path": "dags"},
]


@pytest.mark.parametrize("bundle", BUNDLES, ids=lambda one: one["kind"])
def test_settings_with_a_bundle_reach_child_processes(bundle: dict[str, str]) -> None:
    settings = Settings.model_validate({"dags": {"bundles": [bundle]}})
    sent = json.dumps(settings.model_dump(mode="json"))  # web/process.py:32, cli/serve/peers.py:55
    assert Settings.model_validate(json.loads(sent)) == settings
