"""Operators.

python.py     functions, branches, short circuits      python_env.py      functions with another interpreter
bash.py       shell commands                           trigger_dagrun.py  runs of other DAGs
empty.py      tasks that do nothing                    branching.py       branches by date and time, latest only
sensor.py     the base class of sensors                sql.py             SQL on any database
http.py       requests                                 email.py           mails
human_input.py  answers of people
stub.py       tasks that something else does

They use subprocesses.py (commands), venvs.py (virtual environments) and weekdays.py.
DAG files import them from `aiosched`. What makes mapped tasks of operators comes with the first of them.
"""

from __future__ import annotations

from aiosched.authoring.mapping import mapped  # noqa: F401 - gives operators their `partial`
from aiosched.authoring.tasks.operator import BaseOperator

__all__ = ["BaseOperator"]
