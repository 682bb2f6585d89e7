"""Links of an operator to where its work can be seen: a job's page, a query's profile.

At the end of an attempt the worker computes each link of `operator_extra_links` and stores it as an XCom of the task
with the key `link.xcom_key`. The API and the task's page show those XComs.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from aiosched.core.values.links import LINK_PREFIX

if TYPE_CHECKING:
    from aiosched.authoring.runtime.task_instance import TaskInstance


class BaseOperatorLink(metaclass=ABCMeta):
    """A link with a `name`; subclasses return its address in `get_link`."""

    operators: ClassVar[list[type[Any]]] = []  # for links that a plugin adds to operators

    @property
    @abstractmethod
    def name(self) -> str:
        """The text of the link."""

    @property
    def xcom_key(self) -> str:
        """The key of the XCom that holds the address."""
        return f"{LINK_PREFIX}{type(self).__name__}"

    @abstractmethod
    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """The address for the attempt `ti_key`, in the worker; an empty text for none."""


def push_links(task: Any, ti: TaskInstance | None) -> None:
    """Push each link of `task`, an operator or None; one whose `get_link` raises is logged and left out."""
    if task is None or ti is None:
        return
    for link in task.operator_extra_links:
        try:
            address = link.get_link(task, ti_key=ti.key)
        except Exception:
            task.log.warning("the link %r cannot be computed", link.name, exc_info=True)
            continue
        if address:
            ti.xcom_push(link.xcom_key, {"name": link.name, "url": str(address)})
