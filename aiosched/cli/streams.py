"""What a process has from whoever started it, as the command line needs it.

A closed standard stream is opened on the null device: otherwise the next file or connection would get its number, and
whatever is printed would go there. A program that ignores SIGCHLD passes that on, and then no child of ours could be
waited for. An encoding without some letters gets them as JSON writes them, so JSON stays JSON.
"""

from __future__ import annotations

import codecs
import json
import os
import signal
import sys
from typing import Final

_STREAMS: Final = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))
_AS_JSON: Final = "aiosched.as_json"


def make_usable() -> None:
    """Open closed standard streams, notice the end of children, write letters that the output's encoding lacks."""
    for number, (name, mode) in enumerate(_STREAMS):
        if _is_closed(number):
            nowhere = os.open(os.devnull, os.O_RDWR)  # has the lowest free number: this one, those below are open
            os.set_inheritable(nowhere, True)
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    codecs.register_error(_AS_JSON, _as_json)
    if reconfigure := getattr(sys.stdout, "reconfigure", None):  # a test may have put something else there
        reconfigure(errors=_AS_JSON)


def _is_closed(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return True
    return False


def _as_json(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end
