"""A process is killed at each marked point of a run; another one goes on, and an outsider judges what it finds."""

from typing import Any

import httpx
import pytest

from memory.marks import RUN_MARKS
from memory.sandbox import Sandbox
from tests.crash.checker import Checker
from tests.crash.conftest import Child, Farm
from tests.e2e.test_demo import until
from tests.services.test_tool_steps import reply

pytestmark = pytest.mark.django_db(transaction=True)
LONG = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
COUNTS = {"mid-stream": 4, "events written": 2}
ENDS = {"waiting": "succeeded", "claimed": "succeeded"}
"""How a run ends whose process was killed there; the others are interrupted."""
CALLS = {"input stored": 0, "before call": 0, "waiting": 2, "next step": 0}
"""How often its provider heard of it; of the others once."""
GO_ON = ("waiting", "claimed")
"""Where others go on with it after the kill: what the provider heard is on record then."""


def ask(child: Child, mark: str, sandbox: Sandbox) -> dict[str, str | None]:
    """Start the run that gets its process killed. The runs that were acknowledged."""
    asked: dict[str, Any] = {"messages": f"{mark}: {LONG}", "thread_id": mark.replace(" ", "-")}
    known: dict[str, str | None] = {}
    match mark:
        case "waiting":
            sandbox.script("anthropic", status=429, headers={"retry-after": "1"})
        case "mid-stream" | "events written":
            sandbox.script("anthropic", pace_s=0.15)
        case "next step":
            call = {"type": "tool_use", "id": "toolu_1", "name": "lookup", "input": {"q": "x"}}
            sandbox.script("anthropic", body=reply([call], "tool_use"))
            first = child.api.post("/agents/a/generate", json=asked)
            assert first.json()["status"] == "waiting"
            known[first.json()["run_id"]] = None
            result = {"type": "tool-result", "toolCallId": "toolu_1", "toolName": "lookup"}
            output = {"type": "text", "value": "found"}
            asked["messages"] = [{"role": "tool", "content": [{**result, "output": output}]}]
    try:
        if mark == "claimed":
            begun = child.api.post("/agents/a/generate", json={**asked, "background": True})
            known[begun.json()["run_id"]] = None
        else:
            with child.api.stream("POST", "/agents/a/stream", json=asked) as answer:
                known[answer.headers["x-run-id"]] = None
                answer.read()
    except httpx.TransportError:
        pass  # It is dead.
    return known


def all_over(child: Child) -> bool:
    """Whether no run is going on."""
    return not any(
        child.api.get("/runs", params={"status": status}).json()["items"] for status in ("running", "queued")
    )


def test_killed_at_any_mark(farm: Farm, sandbox: Sandbox) -> None:
    # Whoever is left goes on with a run that waits: last, so that this is nobody who is killed as well.
    marks = sorted(RUN_MARKS, key=lambda mark: mark in ENDS)
    victims = farm.start(*(f"{mark}:{COUNTS.get(mark, 1)}" for mark in marks))
    acknowledged: dict[str, str | None] = {}
    heard: dict[str, int] = {}
    for mark, victim in zip(marks, victims, strict=True):
        before = len(sandbox.requests())
        acknowledged |= ask(victim, mark, sandbox)
        victim.wait()
        heard[mark] = len(sandbox.requests()) - before
    (survivor,) = farm.start("")
    for status in ("running", "queued"):
        until(
            lambda status=status: not survivor.api.get("/runs", params={"status": status}).json()["items"], within_s=60
        )
    checker = Checker(survivor.api, sandbox.url)
    assert checker.problems(acknowledged) == []
    for mark in marks:
        runs = [run for run in checker.runs.values() if run["thread_id"] == mark.replace(" ", "-")]
        newest = max(runs, key=lambda run: run["created_at"])
        assert (mark, newest["status"]) == (mark, ENDS.get(mark, "interrupted"))
        calls = CALLS.get(mark, 1)
        assert (mark, heard[mark] if mark not in GO_ON else len(newest["attempts"])) == (
            mark,
            calls + (mark == "next step"),
        )
        if mark == "next step":
            assert sorted(run["status"] for run in runs) == ["interrupted", "waiting"]  # Its results may come again.
        again = survivor.api.post(
            "/agents/a/generate", json={"messages": f"after {mark}", "thread_id": newest["thread_id"]}
        )
        assert (mark, again.status_code) == (mark, 200), again.text
