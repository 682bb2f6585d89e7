"""Signals of the children that code of DAG authors forks, as `multiprocessing` does."""

from __future__ import annotations

import os
import signal
import threading


def reset_in_children(*numbers: signal.Signals) -> None:
    """Give signals that this process handles their default effect in the children that are forked from now on.

    A child has the handlers of its parent, and the descriptor that wakes its parent's event loop: SIGTERM, with which
    `multiprocessing` ends a child, would not end it, and be handled by the parent. A signal that is ignored stays so,
    and a handler that the author sets before the fork is left alone. Called by the main thread.
    """
    handlers = {number: handler for number in numbers if callable(handler := signal.getsignal(number))}
    thread = threading.local()

    def hold() -> None:  # a signal that comes at once waits until the child has no handler
        thread.blocked = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)

    def release() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, thread.blocked)

    def reset() -> None:
        signal.set_wakeup_fd(-1)
        for number, handler in handlers.items():
            if signal.getsignal(number) == handler:
                signal.signal(number, signal.SIG_DFL)
        release()

    os.register_at_fork(before=hold, after_in_parent=release, after_in_child=reset)
