"""A process is killed at random moments under load, again and again; an outsider judges what the last one shows.

So many moments by default; a hundred with --all.
"""

import itertools
import random
import threading
from typing import Any

import httpx
import pytest

from memory.sandbox import Sandbox
from tests.crash.checker import Checker
from tests.crash.conftest import Child, Farm
from tests.crash.test_marks import all_over
from tests.e2e.test_demo import until

pytestmark = pytest.mark.django_db(transaction=True)
MOMENTS = 8
CALLERS = 6
THREADS = 9
FAULTS: list[dict[str, Any]] = [
    {"status": 429, "headers": {"retry-after": "0"}},
    {"status": 529},
    {"drop": "mid"},
    {"drop": "before"},
]


class Caller:
    """Asks for turns, one after the other, in the ways there are, until nobody answers."""

    def __init__(self, number: int, seed: int) -> None:
        self._number, self._random = number, random.Random(seed * 100 + number)
        self._turns = itertools.count(1)
        self.acknowledged: dict[str, str | None] = {}

    def ask_until_it_is_dead(self, child: Child) -> None:
        try:
            while True:
                self._ask(child.api)
        except httpx.TransportError:
            return

    def _ask(self, api: httpx.Client) -> None:
        thread_id = f"t{self._random.randrange(THREADS)}"
        question = f"{self._number}.{next(self._turns)} {'word ' * self._random.randrange(1, 30)}"
        asked = {"messages": question, "thread_id": thread_id, "when_busy": "queue"}
        match self._random.choice(("generate", "stream", "background")):
            case "stream":
                with api.stream("POST", "/agents/a/stream", json=asked) as answer:
                    if answer.status_code == 200:
                        self.acknowledged[answer.headers["x-run-id"]] = None
                        answer.read()
            case "background":
                begun = api.post("/agents/a/generate", json={**asked, "background": True})
                if begun.status_code == 202:
                    self.acknowledged[begun.json()["run_id"]] = None
            case _:
                answered = api.post("/agents/a/generate", json=asked).json()
                if "run_id" in answered:
                    self.acknowledged[answered["run_id"]] = answered.get("text")


def test_killed_at_random_moments(farm: Farm, sandbox: Sandbox, pytestconfig: pytest.Config) -> None:
    count = 100 if pytestconfig.getoption("--all") else MOMENTS
    chance = random.Random(count)
    callers = [Caller(number, count) for number in range(CALLERS)]
    for _ in range(count):
        for fault in chance.choices([{"status": 200}, {"pace_s": 0.02}, *FAULTS], weights=[50, 40, 2, 2, 2, 2], k=40):
            sandbox.script("anthropic", **fault)
        (victim,) = farm.start("")
        asking = [threading.Thread(target=caller.ask_until_it_is_dead, args=(victim,)) for caller in callers]
        for thread in asking:
            thread.start()
        threading.Event().wait(chance.uniform(0.05, 1.0))
        victim.kill()
        for thread in asking:
            thread.join(60)
    (survivor,) = farm.start("")
    until(lambda: all_over(survivor), within_s=120)
    acknowledged = {run_id: text for caller in callers for run_id, text in caller.acknowledged.items()}
    checker = Checker(survivor.api, sandbox.url)
    assert checker.problems(acknowledged) == []
    statuses = {run["status"] for run in checker.runs.values()}
    assert statuses >= {"succeeded", "interrupted"}
    assert len(acknowledged) > count
