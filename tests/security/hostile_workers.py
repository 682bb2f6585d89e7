"""Hostile messages to the worker API, and requests that come so slowly that they never end."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from aiosched.core.values.worker_messages import MEDIA_TYPE, PREFIX
from tests.security.hostile import ODD_TEXTS, Hostile, HostileRequests

NAMES: Final = ("starts", "code", "heartbeat", "xcoms", "call", "log", "reports", "nothing")
SERVICES: Final = (
    "connection", "variable", "trigger", "previous_run", "check_assets", "sla_misses", "unwritten_log", "reserve_xcoms",
    "x" * 5_000, "",
)  # fmt: skip
NO_MESSAGES: Final = (
    b"", b"\xc1", b"\x91" * 100_000, b"\xdf\xff\xff\xff\xff", b"\xdd\x7f\xff\xff\xff",
    b"\x81\xa6tokens\xdd\xff\xff\xff\xff",
    msgspec.msgpack.encode({"worker": "w", "hostname": "h", "pid": 1, "tokens": [""] * 500_000}),
    msgspec.msgpack.encode({"worker": "w", "refs": [["t"]] * 100_000}),
)  # fmt: skip
SLOWNESS: Final = ("half a head", "half a body", "a body byte by byte", "no byte", "a head byte by byte")
OPEN_SECONDS: Final = 150.0  # after which one that the server has not given up is a finding


class HostileWorkers:
    """Makes messages with tokens that the database has signed, and with others. `make`: for odd values."""

    def __init__(self, tokens: Sequence[str], make: HostileRequests, seed: int) -> None:
        self._tokens, self._make, self._random = tokens, make, random.Random(seed)

    def next(self) -> Hostile:
        chance = self._random
        name = chance.choice(NAMES)
        path = f"{PREFIX}/{name}"
        if name == "log" or chance.random() < 0.02:
            path += f"?offset={chance.choice((0, 1, 7, 10**12, -1, 10**30, 'x'))}"
        headers = {"Content-Type": MEDIA_TYPE, "Aiosched-Worker": "w", **self._authorization()}
        if chance.random() < 0.02:
            headers["Sec-Fetch-Site"] = "cross-site"
        return Hostile(f"worker {name}", "POST", path, self._body(name), headers)

    def _authorization(self) -> Mapping[str, str]:
        chance = self._random
        token = chance.choice(self._tokens)
        kind = chance.random()
        if kind < 0.05:
            return {}
        if kind < 0.1:
            return {"Authorization": f"Bearer {token[:-1]}"}
        if kind < 0.15:
            return {
                "Authorization": f"Bearer {chance.choice(('x' * 9_000, 'a.b.c', '-', '1.1.0.-1.1.' + token[-43:]))}"
            }
        return {"Authorization": f"Bearer {token}"}

    def _body(self, name: str) -> bytes:
        chance = self._random
        kind = chance.random()
        if kind < 0.05:
            return chance.choice((*NO_MESSAGES, chance.randbytes(200), chance.randbytes(300_000)))
        if name == "log":
            return chance.randbytes(chance.choice((0, 1, 4_000)))
        message = self._message(name) if kind < 0.85 else self._make.odd()
        if 0.3 < kind < 0.85:
            message = self._make.spoiled(message)
        try:
            return msgspec.msgpack.encode(message)
        except (OverflowError, UnicodeError, RecursionError):  # it has no such number or text
            return chance.randbytes(30)

    def _message(self, name: str) -> dict[str, Any]:
        chance = self._random
        worker = {"worker": chance.choice(("w", "w", "w", "v"))}
        tokens = [chance.choice(self._tokens) for _ in range(chance.choice((1, 1, 3, 200)))]
        match name:
            case "starts":
                return {**worker, "hostname": "h", "pid": 1, "tokens": tokens}
            case "heartbeat":
                return {**worker, "tokens": tokens}
            case "xcoms":
                return {**worker, "refs": [["extract", "return_value", None], [chance.choice(ODD_TEXTS), "k", -1]]}
            case "call":
                args = chance.choice(("{}", "[]", "", '{"get": "warehouse"}', '{"dag_id": "sales"}', "[" * 50_000))
                number = str(chance.choice(("00000000-0000-0000-0000-000000000001", "x")))
                return {**worker, "id": number, "name": chance.choice(SERVICES), "args": args}
            case "reports":
                return {**worker, "reports": [self._report(token) for token in tokens[:3]]}
        return worker

    def _report(self, token: str) -> dict[str, Any]:
        chance = self._random
        outcome = chance.choice(("success", "failed", "skipped", "deferred", "up_for_reschedule", "started"))
        report = {"key": [1, 0, -1, 1], "outcome": outcome, "at": "2026-01-01T00:00:00Z", "reason": "r" * 3}
        more = {
            "xcoms": [{"key": chance.choice(ODD_TEXTS), "value": "1"}],
            "retry_delay": chance.choice((0.0, -1.0, 1e308)),
            "map_length": chance.choice((0, -1, 2**40)), "event": "{", "reschedule_at": "9999-12-31T23:59:59Z",
        }  # fmt: skip
        chosen = {name: one for name, one in more.items() if chance.random() < 0.3}
        return {
            "token": token,
            "report": {**report, **chosen},
            "log": b"line",
            "log_offset": chance.choice((0, 9, 2**50)),
        }


async def _until_closed(reader: asyncio.StreamReader) -> None:
    with contextlib.suppress(ConnectionError):
        await reader.read()


async def send_slowly(url: str, token: str, how: str, route: str) -> float:
    """One request that never ends of itself; the seconds after which the server has given it up, or OPEN_SECONDS."""
    where = urlsplit(url)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    began = time.monotonic()
    head = (
        f"POST {route} HTTP/1.1\r\nHost: {where.netloc}\r\nAuthorization: Bearer {token}\r\n"
        "Content-Type: application/json\r\nContent-Length: 60000\r\n\r\n"
    ).encode()
    try:
        async with asyncio.timeout(OPEN_SECONDS):
            with contextlib.suppress(ConnectionError):
                if how == "half a head":
                    writer.write(head[: len(head) // 2])
                elif how != "no byte" and how != "a head byte by byte":
                    writer.write(head + b"[" * (30_000 if how == "half a body" else 0))
                closed = asyncio.ensure_future(_until_closed(reader))
                slow = head if how == "a head byte by byte" else b"[" * 60_000
                for number in range(len(slow)):
                    if "byte by byte" in how:
                        writer.write(slow[number : number + 1])
                    done, _ = await asyncio.wait({closed}, timeout=1.0)
                    if done:
                        break
    except TimeoutError:
        return OPEN_SECONDS
    finally:
        writer.transport.abort()
    return time.monotonic() - began
