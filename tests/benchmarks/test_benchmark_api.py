"""The benchmark of the REST API, in small."""

from __future__ import annotations

import pytest

from benchmarks import api


async def test_each_list_is_measured_and_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "_ROUNDS", 1)

    finding = await api.api_latencies(1_000, 0)

    assert finding.problems == ()
    assert len(finding.figures) == len(api.LISTS)
    assert all(figure.value > 0 and figure.most == 50 for figure in finding.figures)
