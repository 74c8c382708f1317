"""Streamed runs: events as they come, for readers who come and go."""

import gc
import json
import weakref
from concurrent.futures import wait
from threading import Barrier
from typing import Any

import pytest

from memory.errors import Busy, NotFound
from memory.models import Attempt, Message, Run
from memory.providers import http
from memory.providers.wire import TextDelta
from memory.sandbox import Sandbox
from memory.services import agents, streams, turns
from memory.services.feed import Feed
from memory.services.runner import runner
from tests.make import caller, streamed

pytestmark = pytest.mark.django_db(transaction=True)
RETRYING = {
    "id": "streaming",
    "name": "Streaming",
    "model": "anthropic/claude-sonnet-4-5",
    "error_processors": [
        {"id": "stream-error-retry-processor", "options": {"matchers": [{"match": "dropped-connection"}]}}
    ],
    "input_processors": ["message-history", "provider-history-compat"],
    "output_processors": ["message-history"],
}


@pytest.fixture
def sandbox(transactional_db: None, running_sandbox: Sandbox, settings: Any) -> Sandbox:
    """The sandbox, for tests whose rows other threads have to see."""
    from memory.models import Provider

    running_sandbox.clear()
    settings.SANDBOX_URL = running_sandbox.url
    for provider, protocol in (("anthropic", "anthropic-messages"), ("openai", "openai-chat")):
        Provider.objects.create(id=provider, protocol=protocol, base_url=f"sandbox:{provider}")
    agents.create_agent(caller(), RETRYING)
    return running_sandbox


def read(run_id: str, *, after: int = 0) -> list[tuple[int, str, Any]]:
    """All events of a run until it has ended."""
    found = streams.read_events(run_id, after=after)
    return [(event[0], event[1], json.loads(event[2])) for event in found if event is not None]


def text_of(events: list[tuple[int, str, Any]]) -> str:
    return "".join(data["text"] for _, type, data in events if type == "text-delta")


def start(**more: Any) -> Run:
    values = {"messages": "hello", "thread_id": "t", **more}
    return streamed("streaming", **values)


@pytest.mark.parametrize("model", ["anthropic/claude-sonnet-4-5", "openai/gpt-4o"])
def test_the_pieces_are_the_answer(sandbox: Sandbox, model: str) -> None:
    run = start(model=model)
    events = read(run.id)
    assert events[0][1] == "started"
    assert events[-1][1:] == ("finished", {"status": "succeeded"})
    assert text_of(events) == "You said: hello"
    assert Message.objects.get(thread_id="t", role="assistant").content.count("You said: hello") >= 1
    assert sandbox.requests()[-1]["body"]["stream"] is True


def test_numbers_go_up_by_one_and_a_reader_goes_on_where_it_was(sandbox: Sandbox) -> None:
    run = start()
    events = read(run.id)
    assert [number for number, _, _ in events] == list(range(1, len(events) + 1))
    assert read(run.id, after=3) == events[3:]


def test_a_run_goes_on_without_a_reader(sandbox: Sandbox) -> None:
    run = start()
    reader = streams.read_events(run.id)
    next(reader)
    reader.close()
    assert read(run.id)[-1][1] == "finished"


def test_a_cut_stream_is_tried_again_and_its_pieces_do_not_count(sandbox: Sandbox) -> None:
    sandbox.script("anthropic", drop="mid")
    events = read(start().id)
    kinds = [type for _, type, _ in events]
    decisions = [data["decision"] for _, type, data in events if type == "attempt"]
    assert decisions == ["retry", "answered"]
    assert text_of(events[kinds.index("attempt") :]) == "You said: hello"


def test_what_had_come_of_a_broken_answer_is_kept_and_marked(sandbox: Sandbox) -> None:
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "m", "type": "message", "role": "assistant", "model": "claude", "content": [], "usage": usage}
    error = {"type": "invalid_request_error", "message": "broken"}
    told = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Half an answ"}},
        {"type": "error", "error": error},
    ]
    body = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in told)
    sandbox.script("anthropic", status=200, body=body)
    events = read(start().id)
    assert events[-1][2] == {"status": "failed"}
    row = Message.objects.get(thread_id="t", role="assistant")
    content = json.loads(row.content)
    assert content["parts"][0]["text"] == "Half an answ"
    assert content["metadata"]["incomplete"] is True
    assert Attempt.objects.get().decision == "give-up"


def test_a_process_takes_no_more_than_it_may(sandbox: Sandbox, settings: Any) -> None:
    settings.COMPAT_ADMIN_MAX_RUNS = 1
    runner.cache_clear()
    sandbox.script("anthropic", delay_s=1)
    first = start()
    with pytest.raises(Busy):
        start(thread_id="other")
    with pytest.raises(NotFound):
        streamed("nobody", messages="x")
    assert read(first.id)[-1][2] == {"status": "succeeded"}
    runner.cache_clear()


def test_as_many_runs_are_worked_on_at_once_as_the_settings_say(
    sandbox: Sandbox, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.COMPAT_ADMIN_RUN_THREADS = 6
    runner.cache_clear()
    all_at_once, begin = Barrier(6, timeout=20), turns.RunTurn.next_call

    def begin_together(turn: turns.RunTurn) -> Any:
        all_at_once.wait()
        return begin(turn)

    monkeypatch.setattr(turns.RunTurn, "next_call", begin_together)
    begun = [start(thread_id=f"t{number}") for number in range(6)]
    assert [read(run.id)[-1][2] for run in begun] == [{"status": "succeeded"}] * 6
    runner.cache_clear()


def test_nothing_of_a_run_waits_for_the_collector(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """A collection that has to look for rings holds up all streams of the process."""
    held: weakref.WeakSet[Any] = weakref.WeakSet()

    def note(kind: Any) -> None:
        begin = kind.__init__

        def noted(self: Any, *args: Any, **more: Any) -> None:
            begin(self, *args, **more)
            held.add(self)

        monkeypatch.setattr(kind, "__init__", noted)

    note(turns.TurnLoop)
    note(http.Stream)
    gc.collect()
    gc.disable()
    try:
        run = start()
        assert read(run.id)[-1][2] == {"status": "succeeded"}
        # What the pools still hold of the last piece of work goes with the next one.
        for pool in (runner()._calls, runner()._rows):
            wait([pool.submit(int) for _ in range(pool._max_workers)])
        assert len(held) == 0
    finally:
        gc.enable()


def test_a_piece_is_told_when_it_is_written_but_the_first_at_once() -> None:
    feed = Feed("run_1")
    feed.chunk(TextDelta("one "))
    feed.chunk(TextDelta("two "))
    feed.chunk(TextDelta("three"))
    assert [json.loads(data) for _, _, data in feed.after(0, 0)[0] or ()] == [{"text": "one "}]
    batch = feed.take_unwritten()
    feed.tell(batch)
    assert feed.after(0, 0)[0] == batch
    assert [json.loads(data)["text"] for _, _, data in batch] == ["one ", "two three"]
