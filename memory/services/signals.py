"""Who waits for news of a run in this process is woken up; in others they look again after a moment."""

from __future__ import annotations

import threading

_changed = threading.Condition()
_counts: dict[str, int] = {}


def notify(run_id: str) -> None:
    """There is news of the run."""
    with _changed:
        if run_id in _counts:
            _counts[run_id] += 1
            _changed.notify_all()


class Watch:
    """Waits for news of one run; made before looking, so that none between looking and waiting is missed."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id

    def __enter__(self) -> Watch:
        with _changed:
            self._seen = _counts.setdefault(self._run_id, 0)
        return self

    def __exit__(self, *_: object) -> None:
        with _changed:
            _counts.pop(self._run_id, None)

    def wait(self, seconds: float) -> None:
        """Return at the next news, or after so many seconds."""
        with _changed:
            _changed.wait_for(lambda: _counts.get(self._run_id, -1) != self._seen, seconds)
            self._seen = _counts.setdefault(self._run_id, 0)
