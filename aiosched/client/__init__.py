"""The REST API from Python: `Client`, typed and asynchronous.

    async with Client("http://127.0.0.1:8484", token="aios_…") as client:
        run = await client.trigger("sales", conf={"day": 1})
        ended = await client.wait("sales", run.run_id)

It answers with the models of the API itself (`aiosched.web.api`). Needs `pip install 'aiosched[http]'`.
"""

from __future__ import annotations

from aiosched.client.client import ApiProblem, Client

__all__ = ["ApiProblem", "Client"]
