"""A bot that reminds people: one-off jobs at an instant, and periodic ones, beside a loop that reads messages.

    pip install .
    python examples/embedding/bot.py
    remind 90 drink something                       an answer now, and "drink something" after 90 seconds
    mute 60                                         no digest for a minute

It talks on standard input and output; a bot of a messenger reads and sends there instead. Reminders survive restarts: a
schedule that is data is a row, and one whose instant was missed runs at the next start.
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta

from aiosched import Scheduler

Send = Callable[[str], Awaitable[None]]


class Chat:
    """Where answers go. The jobs get it by this type."""

    def __init__(self, send: Send) -> None:
        self.send = send


def make(
    chat: Chat, *, digest: float = 3600, dsn: str | None = None
) -> tuple[Scheduler, Callable[[str], Awaitable[None]]]:
    """The scheduler of the bot, and what hears its messages. `digest`: seconds between two digests."""
    scheduler = Scheduler(dsn=dsn, dags=[], context={Chat: chat}, migrate=True, application="bot")
    heard = 0

    @scheduler.job(retries=3, retry_delay=5)
    async def remind(text: str, chat: Chat) -> None:
        await chat.send(f"⏰ {text}")

    @scheduler.job(every=digest)
    async def tell_digest(chat: Chat) -> None:
        await chat.send(f"{heard} messages until now, {len(await scheduler.schedules('remind'))} reminders")

    @scheduler.job()
    async def unmute() -> None:
        await scheduler.unpause("tell_digest")

    async def hear(message: str) -> None:
        nonlocal heard
        heard += 1
        word, _, rest = message.partition(" ")
        try:
            if word == "remind":
                seconds, _, text = rest.partition(" ")
                at = datetime.now(UTC) + timedelta(seconds=float(seconds))
                await scheduler.schedule(remind, f"reminder-{at.timestamp()}", at=at, text=text)
                await chat.send(f"at {at:%H:%M:%S} UTC")
            elif word == "mute":
                await scheduler.pause("tell_digest")
                # Muted again, the end moves: one job, which starts that long after the last request.
                await scheduler.trigger(unmute, unique="unmute", debounce=float(rest))
                await chat.send("muted")
            else:
                await chat.send("remind SECONDS TEXT, or mute SECONDS")
        except ValueError:
            await chat.send(f"how long is {rest.partition(' ')[0]!r}?")

    return scheduler, hear


async def lines() -> AsyncIterator[str]:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        yield line.decode().strip()


async def main() -> None:
    async def say(text: str) -> None:
        print(text, flush=True)

    scheduler, hear = make(Chat(say), digest=float(os.environ.get("DIGEST", "3600")))
    async with scheduler:
        await say("listening")
        async for line in lines():
            await hear(line)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())
