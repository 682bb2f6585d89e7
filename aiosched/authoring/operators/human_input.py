"""Tasks that ask people, and go on with their answer.

They wait without a slot: they are deferred. People answer on the page *Input*, with `aiosched inputs answer`, or by the
API. Names and behaviour are those of Airflow's operators of the same names.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import urlencode

import msgspec

from aiosched.authoring.base import checks
from aiosched.authoring.base.params import ParamsDict
from aiosched.authoring.base.plain_callers import for_plain_callers
from aiosched.authoring.operators.python import decide_branch, skip_downstream
from aiosched.authoring.runtime.services import acall
from aiosched.authoring.tasks.operator import BaseOperator
from aiosched.authoring.tasks.task_context import param_value
from aiosched.authoring.triggers.human_input import HumanInputTrigger
from aiosched.clock import Clock, SystemClock
from aiosched.core.graph.human_input import InputRequest
from aiosched.errors import AioschedError, FailTask

if TYPE_CHECKING:
    from aiosched.authoring.runtime.context import Context


Notifier = Callable[["Context"], Awaitable[None]]  # a BaseNotifier is one


class HITLTimeoutError(AioschedError):
    """Nobody answered in time, and the task has no defaults."""


class HITLRejectException(FailTask):
    """Somebody rejected what the task asked to approve, and it was to fail then."""


class HITLOperator(BaseOperator):
    """Asks people to choose among `options`, and to fill in `params`, and pushes what they answered.

    `subject` and `body` (Markdown) are rendered as templates. One option can be chosen, several with `multiple`.
    After `response_timeout` (or `execution_timeout`) the `defaults` are chosen, or the task fails if it has none.
    `assigned_users` (names, or `{"id": …, "name": …}`) may answer, and nobody else; without it everyone with the role
    operator may. The `notifiers` are called once the question can be seen. The result is
    `{"chosen_options": […], "params_input": {…}, "responded_at": …, "responded_by_user": {"id", "name"} or None}`.
    """

    template_fields: ClassVar[Sequence[str]] = ("subject", "body")
    ui_color = "#f4f1fb"
    clock: ClassVar[Clock] = SystemClock()

    def __init__(
        self,
        *,
        subject: str,
        options: Sequence[str],
        body: str | None = None,
        defaults: str | Sequence[str] | None = None,
        multiple: bool = False,
        params: ParamsDict | Mapping[str, Any] | None = None,
        notifiers: Notifier | Iterable[Notifier] | None = None,
        assigned_users: str | Mapping[str, str] | Iterable[str | Mapping[str, str]] | None = None,
        response_timeout: timedelta | float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.subject: str = subject
        self.body: str | None = body
        self.options: list[str] = [options] if isinstance(options, str) else list(options)
        self.multiple = multiple
        self.defaults: list[str] | None = (
            [defaults] if isinstance(defaults, str) else None if defaults is None else list(defaults)
        )
        self.input_params: ParamsDict = ParamsDict(params, owner=f"task {self.task_id!r}")
        self.notifiers: list[Notifier] = [notifiers] if callable(notifiers) else list(notifiers or ())
        self.assigned_users: tuple[str, ...] = _names(assigned_users)
        self.response_timeout: timedelta | None = checks.optional_duration(
            "response_timeout", response_timeout, self._origin
        )
        self._check()

    def _check(self) -> None:
        if not self.options:
            raise self.fail(f"Task {self.task_id!r}: give it options to choose from.")
        if len(set(self.options)) < len(self.options):
            raise self.fail(f"Task {self.task_id!r}: each of its options may be named once: {self.options}.")
        if stray := [option for option in self.defaults or () if option not in self.options]:
            raise self.fail(
                f"Task {self.task_id!r}: the default {stray[0]!r} is not one of its options: {self.options}."
            )
        if len(self.defaults or ()) > 1 and not self.multiple:
            raise self.fail(f"Task {self.task_id!r}: one default only, unless multiple=True.")

    @for_plain_callers
    async def execute(self, context: Context) -> Any:
        """Store the question, notify, and wait without a slot."""
        limit = self.response_timeout or self.execution_timeout
        expires_at = None if limit is None else self.clock.now() + limit
        asked = await acall(
            "ask_input",
            **_place(context),
            task_id=self.task_id,
            question=msgspec.to_builtins(self._question()),
            expires_at=expires_at and expires_at.isoformat(),
        )
        if not asked.get("nobody"):
            for notifier in self.notifiers:
                await notifier(context)
            self.log.info("waits for an answer to %r", self.subject)
            self.defer(trigger=HumanInputTrigger(expires_at), method_name="execute_complete")
        return await self.execute_complete(context, None)  # in dag.test()

    @for_plain_callers
    async def execute_complete(self, context: Context, event: Any) -> Any:
        """Called when somebody has answered, or nobody in time."""
        given = event if event is not None else self._by_default()
        await acall("close_input", **_place(context), **given)
        by = given["by"]
        name = by and (by.partition(":")[2] or by)
        self.log.info("%s chose %s", name or "nobody answered: the default is", ", ".join(given["options"]))
        output = {
            "chosen_options": list(given["options"]),
            "params_input": {
                name: param_value(name, value, self.input_params[name]) for name, value in given["params"].items()
            },
            "responded_at": given["at"],
            "responded_by_user": None if name is None else {"id": name, "name": name},
        }
        return self.conclude(output, context)

    def conclude(self, output: dict[str, Any], context: Context) -> Any:
        """What the task returns for this answer."""
        return output

    @staticmethod
    def generate_link_to_ui_from_context(*, context: Context, base_url: str) -> str:
        """The address of the page on which this task's question is answered; `base_url` is that of the web server."""
        ti = context["ti"]
        query = {"dag_id": ti.dag_id, "run_id": ti.run_id, "task_id": ti.task_id}
        mapped = {"map_index": ti.map_index} if ti.map_index >= 0 else {}
        return f"{base_url.rstrip('/')}/inputs?{urlencode({**query, **mapped})}"

    def _question(self) -> InputRequest:
        return InputRequest(
            subject=self.subject,
            body=self.body,
            options=tuple(self.options),
            defaults=None if self.defaults is None else tuple(self.defaults),
            multiple=self.multiple,
            params={name: param.to_spec() for name, param in self.input_params.declared().items()},
            respondents=self.assigned_users,
        )

    def _by_default(self) -> dict[str, Any]:
        if self.defaults is None:
            raise HITLTimeoutError(
                f"Nobody answered {self.subject!r} in time, and there are no defaults. Give the task defaults=…, or a "
                "longer response_timeout."
            )
        now: datetime = self.clock.now()
        plain = {name: param.to_spec().value for name, param in self.input_params.declared().items()}
        return {"options": self.defaults, "params": plain, "by": None, "at": now.isoformat()}


class ApprovalOperator(HITLOperator):
    """Asks people to approve; if they reject, the direct downstream tasks are skipped.

    With `ignore_downstream_trigger_rules` all tasks downstream are skipped, whatever their trigger rules; with
    `fail_on_reject` the task fails instead, without a retry.
    """

    APPROVE: ClassVar[str] = "Approve"
    REJECT: ClassVar[str] = "Reject"
    can_skip_downstream: ClassVar[bool] = True

    def __init__(
        self, *, ignore_downstream_trigger_rules: bool = False, fail_on_reject: bool = False, **kwargs: Any
    ) -> None:
        if taken := {"options", "multiple"} & kwargs.keys():
            raise self.fail(f"{sorted(taken)[0]!r} of an approval is fixed: leave it out.")
        super().__init__(options=[self.APPROVE, self.REJECT], **kwargs)
        self.ignore_downstream_trigger_rules = ignore_downstream_trigger_rules
        self.fail_on_reject = fail_on_reject

    def conclude(self, output: dict[str, Any], context: Context) -> Any:
        """Skip what follows, or fail, unless it was approved."""
        if self.APPROVE in output["chosen_options"]:
            return output
        if self.fail_on_reject:
            raise HITLRejectException(f"{self.subject!r} was rejected.")
        skip_downstream(self, context, all_of_them=self.ignore_downstream_trigger_rules)
        return output


class HITLBranchOperator(HITLOperator):
    """Follows the direct downstream tasks that people choose, and skips the others.

    An option is the id of a task or task group, or a key of `options_mapping`, whose value is one.
    """

    can_skip_downstream: ClassVar[bool] = True

    def __init__(self, *, options_mapping: Mapping[str, str] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.options_mapping: dict[str, str] = dict(options_mapping or {})
        if stray := [option for option in self.options_mapping if option not in self.options]:
            raise self.fail(f"Task {self.task_id!r}: options_mapping names {stray[0]!r}, which is not an option.")

    def conclude(self, output: dict[str, Any], context: Context) -> Any:
        """Follow what was chosen."""
        chosen = [self.options_mapping.get(option, option) for option in output["chosen_options"]]
        decide_branch(self, chosen, context)
        return output


class HITLEntryOperator(HITLOperator):
    """Asks people to fill in `params`: the only option is OK unless others are given."""

    OK: ClassVar[str] = "OK"

    def __init__(self, *, options: Sequence[str] | None = None, **kwargs: Any) -> None:
        if options is None:
            kwargs.setdefault("defaults", [self.OK])
        super().__init__(options=[self.OK] if options is None else options, **kwargs)


def _place(context: Context) -> dict[str, int]:
    key = context["ti"].attempt.key
    return {"task_index": key.task_index, "map_index": key.map_index, "try_number": key.try_number}


_NAMED: Final = ("name", "id")


def _names(users: str | Mapping[str, str] | Iterable[str | Mapping[str, str]] | None) -> tuple[str, ...]:
    if users is None:
        return ()
    given = [users] if isinstance(users, str | Mapping) else list(users)
    return tuple(user if isinstance(user, str) else next(user[key] for key in _NAMED if key in user) for user in given)
