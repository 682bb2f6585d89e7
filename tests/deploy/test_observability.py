"""deploy/prometheus and deploy/grafana: every metric that they name is exported, alerts fire when they should."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from aiosched.core.figures.metrics import Metrics
from aiosched.db.server.engine import Database
from aiosched.parsing.service import ParserStats
from aiosched.scheduler.observability.metrics_snapshot import figures_of
from aiosched.web.server.exposition import exposition
from tests.deploy.compose import ROOT, VARIABLES, read_compose

PROMETHEUS = ROOT / "deploy" / "prometheus"
GRAFANA = ROOT / "deploy" / "grafana"
DASHBOARD = GRAFANA / "dashboards" / "aiosched.json"
PROMTOOL = shutil.which("promtool")
with_promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed (apt-get install prometheus)")
OF_EVERY_SERIES = {"job", "instance", "le"}


def panels() -> Iterator[dict[str, Any]]:
    yield from (panel for panel in json.loads(DASHBOARD.read_text("utf-8"))["panels"] if panel["type"] != "row")


def rules() -> list[dict[str, Any]]:
    content = yaml.safe_load((PROMETHEUS / "alerts.yml").read_text("utf-8"))
    return [rule for group in content["groups"] for rule in group["rules"]]


def expressions() -> dict[str, str]:
    """Each query, by the panel or the alert that has it."""
    found = {f"{panel['title']} {one['refId']}": one["expr"] for panel in panels() for one in panel["targets"]}
    return found | {rule["alert"]: rule["expr"] for rule in rules()}


async def exported(db: Database) -> dict[str, set[str]]:
    """The series of `/metrics` with a parser and a scheduler of every kind of figure, and their labels."""
    figures = figures_of(None, Metrics(), ParserStats(1, 1, 0, 0.1, 0)) | {
        "tasks": {"running": 1},
        "finished": {"success": 1},
        "executor": {"local": {"open": 1, "open_async": 1, "blocked": [], "times_blocked": 0}},
    }
    async with db.acquire() as conn:
        await conn.execute(
            "INSERT INTO scheduler (name, hostname, pid, version, executor, slots, lease_expires_at, figures)"
            " VALUES ('one', 'host', 1, '1', 'local', 1, now() + interval '1 minute', $1)",
            json.dumps(figures),
        )
        await conn.execute(
            "INSERT INTO parser (name, hostname, pid, version, bundles, figures)"
            " VALUES ('p', 'host', 2, '1', '{}', '{}')"
        )
    found: dict[str, set[str]] = {"up": set()}
    for family in text_string_to_metric_families((await exposition(db)).decode()):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


async def test_every_metric_and_label_of_the_dashboard_and_the_alerts_is_exported(db: Database) -> None:
    known = await exported(db)
    missing = []

    for where, expression in expressions().items():
        names = set(re.findall(r"\b(aiosched_\w+|up)\b(?![(\"])", expression))
        assert names, where
        missing += [f"{where}: {name}" for name in names - set(known)]
        labels = set(re.findall(r"(\w+)=~?\"", expression))
        for listed in re.findall(r"by \(([^)]*)\)", expression):
            labels |= {label.strip() for label in listed.split(",")}
        allowed = OF_EVERY_SERIES.union(*(known.get(name, set()) for name in names))
        missing += [f"{where}: label {label}" for label in labels - allowed]

    assert missing == []


async def test_legends_and_messages_name_labels_that_their_query_keeps(db: Database) -> None:
    known = await exported(db)
    said = {f"{panel['title']} {one['refId']}": one["legendFormat"] for panel in panels() for one in panel["targets"]}
    said |= {rule["alert"]: " ".join(rule["annotations"].values()) for rule in rules()}
    lost = []

    for where, text in said.items():
        expression = expressions()[where]
        kept = {label.strip() for listed in re.findall(r"by \(([^)]*)\)", expression) for label in listed.split(",")}
        if not re.search(r"\b(sum|max|min)\b", expression):
            kept |= OF_EVERY_SERIES.union(*(known.get(name, set()) for name in re.findall(r"\b\w+\b", expression)))
        wanted = set(re.findall(r"\{\{(\w+)\}\}", text)) | set(re.findall(r"\$labels\.(\w+)", text))
        lost += [f"{where}: {label}" for label in wanted - kept]

    assert lost == []


def test_every_alert_says_what_is_wrong_and_what_to_do() -> None:
    for rule in rules():
        assert set(rule["annotations"]) == {"summary", "action"}, rule["alert"]
        assert rule["labels"]["severity"] in ("page", "ticket"), rule["alert"]


def test_the_panels_of_the_dashboard_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert at["x"] + at["w"] <= 24, panel["title"]
        assert not cells & taken, panel["title"]
        taken |= cells


def test_the_parts_of_the_profile_find_each_other() -> None:
    services = read_compose(VARIABLES).services
    config = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text("utf-8"))
    [source] = yaml.safe_load((GRAFANA / "provisioning/datasources/prometheus.yml").read_text("utf-8"))["datasources"]
    [provider] = yaml.safe_load((GRAFANA / "provisioning/dashboards/aiosched.yml").read_text("utf-8"))["providers"]
    mounts = {(one.source, one.target) for name in ("prometheus", "grafana") for one in services[name].mounts}

    targets = [target for job in config["scrape_configs"] for one in job["static_configs"] for target in one["targets"]]

    assert targets == ["web:8484"]
    assert services["web"].ports == ("127.0.0.1:8484:8484",)
    assert services["web"].environment["AIOSCHED__METRICS__TOKEN__FILE"] == "/run/secrets/metrics_token"
    assert "metrics_token" in services["web"].secrets & services["prometheus"].secrets
    assert {job["authorization"]["credentials_file"] for job in config["scrape_configs"]} == {
        "/run/secrets/metrics_token"
    }
    assert source["url"] == "http://prometheus:9090"
    assert {one["datasource"]["uid"] for panel in panels() for one in panel["targets"]} == {source["uid"]}
    assert all((PROMETHEUS / name).exists() for name in config["rule_files"])
    assert (str(PROMETHEUS), "/etc/prometheus") in mounts
    assert (str(GRAFANA / "provisioning"), "/etc/grafana/provisioning") in mounts
    assert (str(DASHBOARD.parent), provider["options"]["path"]) in mounts


@with_promtool
def test_prometheus_accepts_its_configuration_and_the_rules() -> None:
    run("check", "config", "--syntax-only", "prometheus.yml")  # the token is in the container only


@with_promtool
def test_alerts_fire_when_they_should_and_not_before() -> None:
    """The series and what is expected of them: alerts.test.yml beside this file."""
    run("test", "rules", str(ROOT / "tests" / "deploy" / "alerts.test.yml"))


def run(*words: str) -> None:
    assert PROMTOOL is not None
    done = subprocess.run([PROMTOOL, *words], cwd=PROMETHEUS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
