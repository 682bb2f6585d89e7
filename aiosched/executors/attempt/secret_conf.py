"""The secret values of a run's conf, in the process of a task: plain for its code, and `***` in its logs.

What a param has by default is in the DAG's file, but if its schema says `format: password`, logs hide it, too.
"""

from __future__ import annotations

import msgspec

from aiosched.authoring.runtime.xcom_values import read_data
from aiosched.core.values.messages import Attempt
from aiosched.core.values.secret_values import has_secrets, revealed


def with_secrets(attempt: Attempt) -> Attempt:
    """The attempt whose conf has the values of its secrets, and of types that JSON does not hold.

    Raises AioschedError for a secret that cannot be read.
    """
    run = attempt.run
    if not run.conf:
        return attempt
    conf = revealed(run.conf) if has_secrets(run.conf) else run.conf
    conf = {name: read_data(value) for name, value in conf.items()}  # a name is never a mark
    return msgspec.structs.replace(attempt, run=msgspec.structs.replace(run, conf=conf))
