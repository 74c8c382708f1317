"""Two hundred runs at once with faults among them: every message once and in order, every attempt on record."""

import hashlib
import json
import random
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import msgspec
import pytest
from django.db import connection

from memory.models import Attempt, Message, Run, Thread
from memory.sandbox import Sandbox
from memory.services import agents, runs, streams
from memory.services.runs import GenerateRequest
from tests.make import caller, streamed

pytestmark = pytest.mark.django_db(transaction=True)
RUNS = 200
THREADS = 50
FAULTS: list[dict[str, Any]] = [
    {"status": 429, "headers": {"retry-after": "1"}},
    {"status": 529},
    {"status": 503},
    {"drop": "mid"},
    {"drop": "before"},
    {"failure": "overloaded", "after": 3},
]
AGENT = {
    "id": "many",
    "name": "Many",
    "model": "anthropic/claude-sonnet-4-5",
    "input_processors": ["message-history", "provider-history-compat"],
    "output_processors": ["message-history"],
    "error_processors": [
        {
            "id": "stream-error-retry-processor",
            "options": {"max_retries": 4, "matchers": [{"match": "dropped-connection"}]},
        }
    ],
}


@pytest.fixture
def sandbox(transactional_db: None, running_sandbox: Sandbox, settings: Any) -> Iterator[Sandbox]:
    from memory.models import Provider

    running_sandbox.clear()
    settings.SANDBOX_URL = running_sandbox.url
    Provider.objects.create(id="anthropic", protocol="anthropic-messages", base_url="sandbox:anthropic")
    agents.create_agent(caller(), AGENT)
    yield running_sandbox
    running_sandbox.clear()


def ask(numbers: list[int], begun: dict[int, str]) -> None:
    """Start runs whose messages carry their number, those of a thread behind each other."""
    try:
        for number in numbers:
            asked = {"messages": f"question {number}", "thread_id": f"t{number % THREADS}", "when_busy": "queue"}
            if number % 3:
                begun[number] = streamed("many", **asked).id
            else:
                begun[number] = runs.start_background(caller(), "many", GenerateRequest(**asked)).id
    finally:
        connection.close()


def question(row: Message) -> int:
    text: str = json.loads(row.content)["parts"][0]["text"]
    return int(text.removeprefix("question "))


def test_two_hundred_at_once_with_faults(sandbox: Sandbox) -> None:
    chance = random.Random(6)
    script = [chance.choice(FAULTS) if chance.random() < 0.05 else {"status": 200} for _ in range(2 * RUNS)]
    for answer in script:
        sandbox.script("anthropic", **answer)
    begun: dict[int, str] = {}
    # One thread here for some threads there, so that what is asked of one of those has an order.
    asking = [
        threading.Thread(target=ask, args=([n for n in range(RUNS) if n % THREADS % 10 == i], begun)) for i in range(10)
    ]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    assert len(begun) == RUNS
    for run_id in begun.values():
        streams.wait_until_over(run_id)
    assert Counter(Run.objects.values_list("status", flat=True)) == {"succeeded": RUNS}
    assert not Thread.objects.exclude(active_run="").exists()

    for number in range(THREADS):
        rows = list(Message.objects.filter(thread=f"t{number}").order_by("seq"))
        assert [row.role for row in rows] == ["user", "assistant"] * (RUNS // THREADS)
        asked = [question(row) for row in rows if row.role == "user"]
        assert asked == list(range(number, RUNS, THREADS))
        for put, answer in zip(rows[::2], rows[1::2], strict=True):
            assert put.run_id == answer.run_id == begun[question(put)]
            assert "incomplete" not in answer.content

    received = Counter(hashlib.sha256(body).hexdigest() for body in bodies(sandbox))
    on_record = Counter(Attempt.objects.values_list("request_sha256", flat=True))
    assert received == on_record
    decisions = Counter(Attempt.objects.values_list("decision", flat=True))
    faults = sum(answer != {"status": 200} for answer in script[: received.total()])
    assert decisions == {"answered": RUNS, "retry": faults} and faults >= RUNS * 0.03


class Arrival(msgspec.Struct):
    """A request as the sandbox lists it."""

    body: msgspec.Raw


def bodies(sandbox: Sandbox) -> list[bytes]:
    """What arrived, byte for byte."""
    raw = httpx.get(f"{sandbox.url}/_requests", trust_env=False, timeout=60).content
    return [bytes(arrival.body) for arrival in msgspec.json.decode(raw, type=list[Arrival])]
