"""How the processes of a run share its tests (`pytest -n 2`)."""

from __future__ import annotations

from collections.abc import Sequence

from xdist.scheduler import WorkStealingScheduling
from xdist.workermanage import WorkerController


def whole_files(tests: Sequence[str], count: int) -> int:
    """How many of the tests, given by their node ids, to hand over so that no file is cut in two: `count` or more."""
    while 0 < count < len(tests) and _file(tests[count]) == _file(tests[count - 1]):
        count += 1
    return count


def _file(test: str) -> str:
    return test.partition("::")[0]


class WholeFiles(WorkStealingScheduling):
    """Each process takes a part of the list: a browser, a broker or a cluster is started by one of them.

    What the tests of a file share, such as an image that is built for them, is made once. Whoever has finished takes
    over what another one has not begun, and only that may cut a file.
    """

    def _send_tests(self, node: WorkerController, num: int) -> None:
        assert self.collection is not None
        super()._send_tests(node, whole_files([self.collection[index] for index in self.pending], num))
