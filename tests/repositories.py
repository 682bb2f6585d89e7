"""Real git repositories, made by the git command, and DAG files that wait in mid-run."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_ENV = {
    **os.environ,
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.com",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.com",
}


class Repository:
    """A repository with a work tree, on the branch main."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main")

    @property
    def url(self) -> str:
        return f"file://{self.folder}"

    def git(self, *words: str) -> str:
        done = subprocess.run(["git", *words], cwd=self.folder, env=_ENV, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def commit(self, files: dict[str, str], *, amend: bool = False) -> str:
        """Write these files and commit everything; returns the commit."""
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "change", *(["--amend"] if amend else []))
        return self.git("rev-parse", "HEAD")


DAG = """
import time
from pathlib import Path
from aiosched import dag, task
import words

HERE = Path({here!r})

def say(step, word):
    with (HERE / "said").open("a") as said:
        print(step, BODY, word, file=said)

BODY = {body!r}

@dag(schedule=None{options})
def {dag_id}():
    @task
    {kind} first():
        say("first", words.WORD)
        while not (HERE / "go").exists():
            {pause}

    @task
    {kind} second():
        import late
        say("second", words.WORD + late.WORD)

    first() >> second()

{dag_id}()
"""


def code(
    here: Path, word: str, *, kind: str = "def", dag_id: str = "shop", options: str = "", prefix: str = ""
) -> dict[str, str]:
    """The files of a DAG with two helper modules, one of which is imported by a running task. All say `word`.

    Its first task waits for the file `go` in the folder `here`; what is said is in the file `said`.
    """
    pause = "time.sleep(0.05)" if kind == "def" else "await asyncio.sleep(0.05)"
    text = DAG.format(here=str(here), body=word, dag_id=dag_id, kind=kind, pause=pause, options=options)
    if kind != "def":
        text = "import asyncio\n" + text
    return {
        f"{prefix}{dag_id}.py": text,
        f"{prefix}words.py": f"WORD = {word!r}\n",
        f"{prefix}late.py": f"WORD = {word!r}\n",
    }


def said(here: Path) -> list[str]:
    """What was said, in order."""
    path = here / "said"
    return path.read_text().splitlines() if path.exists() else []
