"""Named points on the way of a run or a job, at which a test ends the process as a crash would.

Outside tests passing one is a call of a function that does nothing.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

VARIABLE = "COMPAT_ADMIN_TEST_KILL_AT"

RUN_MARKS = (
    "input stored",
    "claimed",
    "before call",
    "request sent",
    "mid-stream",
    "reply came",
    "persisted",
    "waiting",
    "next step",
    "events written",
)
JOB_MARKS = ("job step", "job done")


def _nothing(name: str) -> None:
    return


passed: Callable[[str], None] = _nothing
"""Called at each mark with its name."""


def kill_at(name: str, count: int = 1) -> None:
    """Have this process killed when it passes a mark for the `count`th time. Raises ValueError for an unknown one."""
    global passed
    if name not in RUN_MARKS + JOB_MARKS:
        raise ValueError(f"no mark is called {name!r}")
    left = [count]

    def count_down(at: str) -> None:
        if at == name:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    passed = count_down


if asked := os.environ.get(VARIABLE):
    _name, _, _count = asked.partition(":")
    kill_at(_name, int(_count or 1))
