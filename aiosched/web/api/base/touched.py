"""What an action affects, and the notes that people write."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

Note = Annotated[str, Field(max_length=1000, pattern=r"^[^\x00]*$")]


class Touched(BaseModel):
    """A task instance and the state it had before."""

    run_id: str
    task_id: str
    map_index: int
    state: str | None
    try_number: int
