"""Commands of aiosched in messages and explanations, ready to be pasted into a shell.

Source: docs/why.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from shlex import join


def command_line(command: str, *names: object, options: Sequence[object] = ()) -> str:
    """`aiosched` with the words of `command`, the `names` that it is about, and `options`.

    Names may begin with a dash: `--` then says that they are no options.
    """
    about, rest = [str(name) for name in names], [str(option) for option in options]
    is_dashed = any(name.startswith("-") and name != "-" for name in about)
    return join(["aiosched", *command.split(), *([*rest, "--", *about] if is_dashed else [*about, *rest])])
