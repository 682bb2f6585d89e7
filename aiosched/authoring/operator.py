"""`BaseOperator`: what every task is, its parameters and how default_args reach them."""

from __future__ import annotations

import functools
import inspect
import logging
from abc import ABCMeta
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from aiosched.authoring import checks
from aiosched.authoring.building import current_dag, current_group
from aiosched.authoring.dates import aware, optional_aware
from aiosched.authoring.dependencies import Dependable, connect
from aiosched.authoring.location import Location, author_location
from aiosched.authoring.settings import defaults
from aiosched.authoring.xcom_arg import RETURN_VALUE, XComArg, iter_xcom_args
from aiosched.core.messages import XComRef
from aiosched.core.spec import DEFAULT_POOL

if TYPE_CHECKING:
    from aiosched.authoring.context import Context
    from aiosched.authoring.dag import DAG
    from aiosched.authoring.task_group import TaskGroup
    from aiosched.authoring.task_instance import TaskInstance
