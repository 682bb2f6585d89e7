"""The tiers of the tests: the quick one, which `pytest` runs by itself, and all (`--tier all`, `make test-all`).

A test is in the quick tier unless it, or its file, is marked `slow`, or its file or folder is in `SLOW`. Of a function
with parameters that is marked `slow(but_first=True)`, the first case is in the quick tier. What the command line names
by its file (`pytest tests/browser/test_shell.py`) runs in any tier.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

HERE: Final = Path(__file__).parent
TIERS: Final[Mapping[str, str]] = {
    "quick": "25 examples for each property",
    "rest": "what the quick tier leaves out, and the properties again, with 200 examples",
    "all": "everything, with 200 examples for each property",
}
EXAMPLES: Final = {"quick": 25, "rest": 200, "all": 200}

# Files and folders that the quick tier does not import: what they need, besides `pip install '.[test]'`.
SLOW: Final[Mapping[str, str]] = {
    "airflow/test_airflow_examples.py": "wheels of Airflow, from the package index",
    "airflow/test_beside_airflow.py": "Airflow",
    "backends/test_aws_backends.py": "moto",
    "backends/test_google_backend.py": "google-cloud-secret-manager",
    "backends/test_vault_backend.py": "hvac and a vault",
    "benchmarks/test_benchmark_instructions.py": "playwright",
    "benchmarks/test_benchmark_scenarios.py": "playwright",
    "benchmarks/test_peers.py": "playwright",
    "browser": "playwright and Chromium",
    "core/test_json_schema_oracle.py": "jsonschema-rs",
    "deploy": "promtool, kubectl, systemd-analyze, a Docker daemon",
    "docs": "Sphinx",
    "engines/test_celery.py": "celery and its brokers",
    "engines/test_dask.py": "distributed",
    "engines/test_hostile_broker.py": "celery and its brokers",
    "engines/test_hostile_dask.py": "distributed",
    "engines/test_hostile_kubernetes.py": "kubernetes_asyncio",
    "engines/test_kube_api.py": "kubernetes_asyncio",
    "engines/test_kubernetes_engine.py": "kubernetes_asyncio",
    "engines/test_kubernetes_faults.py": "kubernetes_asyncio",
    "engines/test_kubernetes_many.py": "kubernetes_asyncio",
    "engines/test_pod_manifests.py": "jsonschema-rs",
    "engines/test_warm_pods.py": "kubernetes_asyncio",
    "examples/test_frameworks_for_real.py": "aiohttp, django, gunicorn, litestar, uvicorn-worker",
    "migration/test_real_airflow.py": "Airflow",
    "providers": "packages of Airflow, from the package index",
    "scheduler/test_enqueued_by_psycopg.py": "psycopg",
    "scheduler/test_pgbouncer.py": "pgbouncer",
    "scheduler/test_tracing.py": "opentelemetry-sdk",
    "security/test_answers_of_providers.py": "joserfc and hvac",
    "security/test_dag_code_as_another_user.py": "root",
    "security/test_hostile_requests.py": "schemathesis",
    "testing/test_values_of_libraries.py": "numpy, pandas, polars, pyarrow",
    "web/test_airflow_api.py": "apache-airflow-client",
    "web/test_any_request.py": "schemathesis",
    "web/test_foreign_rows.py": "jsonschema-rs",
    "web/test_oidc.py": "joserfc",
}


@functools.cache  # asked for each test
def needs_more(path: Path) -> bool:
    """Whether a file is in `SLOW`, itself or by its folder."""
    inside = path.relative_to(HERE) if path.is_relative_to(HERE) else Path()
    return any(str(place) in SLOW for place in (inside, *inside.parents))


def is_property(item: pytest.Item) -> bool:
    """Whether Hypothesis makes the test's examples."""
    return bool(getattr(getattr(item, "obj", None), "is_hypothesis_test", False))


def is_slow(item: pytest.Item) -> bool:
    """Whether a test is not in the quick tier."""
    marker = item.get_closest_marker("slow")
    return needs_more(item.path) or (marker is not None and not (marker.kwargs.get("but_first") and is_first(item)))


def is_first(item: pytest.Item) -> bool:
    """Whether a test has the first value of each parameter of its function."""
    return not any(item.callspec.indices.values())  # type: ignore[attr-defined]  # AttributeError: it has no parameters


def in_tier(tier: str, item: pytest.Item) -> bool:
    """Whether a test runs in this tier."""
    return {"quick": not is_slow(item), "rest": is_slow(item) or is_property(item), "all": True}[tier]


def named_files(config: pytest.Config) -> frozenset[Path]:
    """The files that the command line names, themselves or one of their tests."""
    paths = (config.invocation_params.dir / argument.partition("::")[0] for argument in config.args)
    return frozenset(path.resolve() for path in paths if path.is_file())


def not_imported(path: Path, parent: pytest.Collector) -> NotImported | None:
    """What stands for a file or folder that the quick tier does not import; None for any other."""
    is_left_out = parent.config.option.tier == "quick" and needs_more(path)
    is_named = any(file.is_relative_to(path) for file in named_files(parent.config))
    return NotImported.from_parent(parent, path=path) if is_left_out and not is_named else None


class NotImported(pytest.File):
    """A file of tests, or a folder of them, that the quick tier counts, without parameters, and does not import."""

    def collect(self) -> Iterator[pytest.Item]:
        for file in sorted(self.path.rglob("test_*.py")) if self.path.is_dir() else [self.path]:
            for node in ast.parse(file.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                    yield Counted.from_parent(self, name=f"{file.name}::{node.name}")


class Counted(pytest.Item):
    """A test that the quick tier leaves out."""

    def runtest(self) -> None:
        raise AssertionError(f"{self.nodeid} is not in the quick tier")
