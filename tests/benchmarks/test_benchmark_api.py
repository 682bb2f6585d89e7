"""The benchmark of the REST API, in small."""

from __future__ import annotations

import pytest

from benchmarks import api


@pytest.mark.slow
@pytest.mark.usefixtures("on_test_server")
async def test_each_list_is_measured_and_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "_ROUNDS", 1)
    monkeypatch.setattr(api, "_DAGS", 200)
    monkeypatch.setattr(api, "_COMMANDS", api._COMMANDS.replace("100000", "400"))

    finding = await api.api_latencies(1_000, 0)

    assert finding.problems == ()
    assert len(finding.figures) == len(api.LISTS)
    assert all(figure.value > 0 and figure.most == 50 for figure in finding.figures)
