"""A walk over the provider packages that are used most. For the night: installing them takes long.

    AIOSCHED_NIGHTLY=1 pytest tests/providers/test_most_used_providers.py

What became of each package is printed. AIOSCHED_TEST_PROVIDERS=FOLDER keeps the installation for the next time.
"""

from __future__ import annotations

import pytest

from tests.conftest import NIGHTLY
from tests.providers.conftest import installed, walked
from tests.providers.walk import share

NAMES = (
    "amazon", "apache-spark", "cncf-kubernetes", "common-sql", "databricks", "dbt-cloud", "docker", "elasticsearch",
    "ftp", "google", "http", "jdbc", "microsoft-azure", "mongo", "odbc", "redis", "sftp", "slack", "smtp", "snowflake",
    "ssh",
)  # fmt: skip
LEAST = 90.0  # percent of the operators, sensors and transfers, and of the other parts


@pytest.mark.skipif(not NIGHTLY, reason="installs gigabytes: set AIOSCHED_NIGHTLY=1")
@pytest.mark.timeout(7_200)
def test_nearly_all_classes_of_the_most_used_providers_are_usable(tmp_path_factory: pytest.TempPathFactory) -> None:
    packages = [f"apache-airflow-providers-{name}" for name in NAMES]
    folder = tmp_path_factory.mktemp("most-used") / "site"
    for package in packages:  # one after the other: their requirements need not fit together
        folder = installed(folder, [package])

    found = walked(folder, packages)

    every = [one for ones in found.values() for one in ones]
    failed = [one for one in every if one.stage]
    for package, ones in found.items():
        tasks = [one for one in ones if one.is_task]
        print(f"{package}: {sum(not one.stage for one in tasks)} of {len(tasks)}")
    print(*(f"{one.path}: {one.stage}: {one.error}" for one in failed), sep="\n")
    assert share([one for one in every if one.is_task]) >= LEAST, failed
    assert share([one for one in every if not one.is_task]) >= LEAST, failed
