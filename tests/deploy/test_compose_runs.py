"""The compose file's default profile and `--scale aiosched=3`, as the same processes side by side, without Docker.

What is imitated, and what is not, is said in containers.py and side_by_side.py. `make image` does the same with the
image that it builds.
"""

from __future__ import annotations

import shutil

import pytest

from tests.conftest import short_folder
from tests.deploy.containers import why_not
from tests.deploy.scenario import three_schedulers
from tests.deploy.side_by_side import HOST, OUR_IMAGE, installed_image, postgres_image

WHY_NOT = why_not()


@pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")
def test_three_schedulers_and_a_web_server_of_the_compose_file_work_and_stop_cleanly() -> None:
    folder = short_folder()
    images = {OUR_IMAGE: (installed_image(), HOST), "postgres:18": (postgres_image(), HOST)}
    try:
        three_schedulers(folder, images)
    finally:
        shutil.rmtree(folder)
