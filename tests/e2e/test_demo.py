"""The demo as a new user meets it: one process, real HTTP, real signals, a kill in the middle of a run."""

import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.demo_process import Demo, free_port

REFERENCE = {
    "id": "e2e",
    "name": "End to end",
    "model": "anthropic/claude-sonnet-4-5",
    "inputProcessors": [
        {"id": "message-history"},
        {"id": "provider-history-compat", "options": {"rules": "reference"}},
    ],
    "outputProcessors": [{"id": "message-history"}],
    "errorProcessors": [{"id": "stream-error-retry-processor", "options": {"maxRetries": 2}}],
}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    with Demo(tmp_path_factory.mktemp("demo")) as started:
        started.ready()
        made = started.api.post("/agents", json=REFERENCE)
        assert made.status_code == 201, made.text
        yield started


def until(condition: Any, *, within_s: float, pause_s: float = 0.1) -> None:
    """Wait until the condition holds."""
    ended = threading.Event()
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        ended.wait(pause_s)


class TestStart:
    def test_serves_the_dashboard_and_the_api_at_once(self, demo: Demo) -> None:
        assert httpx.get(f"{demo.url}/login/", trust_env=False).status_code == 200
        threads = demo.api.get("/threads", params={"limit": 200}).json()["items"]
        assert len(threads) >= 10
        assert any(thread["message_count"] >= 2000 for thread in threads)

    def test_its_connections_point_at_the_sandbox(self, demo: Demo) -> None:
        answered = demo.api.post("/agents/e2e/generate", json={"messages": "hi", "model": "mistral/mistral-large"})
        assert (answered.status_code, answered.json()["text"]) == (200, "You said: hi")
        assert demo.requests()[-1]["path"] == "/mistral/v1/chat/completions"

    def test_a_taken_port_ends_it_with_one_sentence(self, tmp_path: Path) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            with Demo(tmp_path, port=taken.getsockname()[1]) as second:
                assert second.process.wait(60) == 1
                assert "taken" in "".join(second.errors)
                assert "".join(second.errors).count("\n") == 1

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_a_signal_ends_it_and_a_second_start_keeps_the_data(self, tmp_path: Path, number: int) -> None:
        with Demo(tmp_path) as first:
            first.ready()
            made = first.api.post("/threads", json={"id": "kept", "resource_id": "u"})
            assert made.status_code == 201
            assert first.end(number) == 0
        with Demo(tmp_path, port=free_port()) as second:
            second.ready(within_s=30)
            assert (second.password, second.key) == (first.password, first.key)
            assert second.api.get("/threads/kept").status_code == 200


class TestRuns:
    def test_repairs_a_foreign_thread_once_and_for_all(self, demo: Demo) -> None:
        demo.api.post("/threads", json={"id": "foreign", "resource_id": "u"})
        call = {"state": "result", "toolCallId": "call:1.a", "toolName": "find", "args": {"q": 1}, "result": "found"}
        parts = [
            {"type": "reasoning", "reasoning": "look", "details": [{"type": "text", "text": "look"}]},
            {"type": "tool-invocation", "toolInvocation": call},
        ]
        messages = [
            {"id": "q", "role": "user", "content": {"format": 2, "parts": [{"type": "text", "text": "where?"}]}},
            {"id": "a", "role": "assistant", "content": {"format": 2, "parts": parts}},
        ]
        assert demo.api.post("/threads/foreign/messages", json={"messages": messages}).status_code == 201
        first = demo.api.post("/agents/e2e/generate", json={"thread_id": "foreign", "messages": "and?"}).json()
        second = demo.api.post("/agents/e2e/generate", json={"thread_id": "foreign", "messages": "and?"}).json()
        assert (first["attempt_count"], second["attempt_count"]) == (2, 1)

    def test_thirty_hanging_calls_leave_the_thread_list_as_quick_as_before(self, demo: Demo) -> None:
        def listing_s() -> float:
            started = time.perf_counter()
            assert demo.api.get("/threads").status_code == 200
            return time.perf_counter() - started

        before = sorted(listing_s() for _ in range(20))[10]
        demo.script(provider="anthropic", times=30, delay_s=8)
        known = len(demo.requests())
        with ThreadPoolExecutor(30) as pool:
            calls = [
                pool.submit(demo.api.post, "/agents/e2e/generate", json={"messages": f"hang {i}"}) for i in range(30)
            ]
            until(lambda: len(demo.requests()) >= known + 30, within_s=30)
            during = sorted(listing_s() for _ in range(20))[10]
            assert not any(call.done() for call in calls)
            assert all(call.result().status_code == 200 for call in calls)
        assert during < before * 3 + 0.1

    def test_a_streamed_run_comes_in_pieces_and_can_be_read_again(self, demo: Demo) -> None:
        with demo.api.stream("POST", "/agents/e2e/stream", json={"messages": "tell me about the tide"}) as answer:
            assert answer.headers["content-type"] == "text/event-stream"
            run_id = answer.headers["x-run-id"]
            live = "".join(answer.iter_text())
        assert live.count("event: text-delta") >= 1
        assert "event: finished" in live
        again = demo.api.get(f"/runs/{run_id}/events", headers={"Last-Event-ID": "1"}).text
        assert again == live.split("\n\n", 1)[1]

    def test_a_background_run_is_answered_by_a_worker(self, demo: Demo) -> None:
        queued = demo.api.post("/agents/e2e/generate", json={"messages": "hello", "background": True})
        assert (queued.status_code, queued.json()["status"]) == (202, "queued")
        path = f"/runs/{queued.json()['run_id']}"
        until(lambda: demo.api.get(path).json()["status"] == "succeeded", within_s=20)


class TestKill:
    def test_nothing_acknowledged_is_lost_and_the_run_is_shown_as_interrupted(self, tmp_path: Path) -> None:
        lease = {"COMPAT_ADMIN_RUN_LEASE_S": "5"}
        with Demo(tmp_path, **lease) as first:
            first.ready()
            assert first.api.post("/agents", json=REFERENCE).status_code == 201
            body = {"messages": "hello", "thread_id": "t", "resource_id": "u"}
            answered = first.api.post("/agents/e2e/generate", json=body).json()
            assert answered["status"] == "succeeded"
            first.script(provider="anthropic", delay_s=60)
            known = len(first.requests())
            sender = threading.Thread(target=_ignoring_the_end, args=(first, {**body, "messages": "still there?"}))
            sender.start()
            until(lambda: len(first.requests()) > known, within_s=20)
            first.process.kill()
            sender.join(20)
        with Demo(tmp_path, **lease) as second:
            second.ready()
            kept = second.api.get("/threads/t/messages").json()["items"]
            assert [message["id"] for message in kept] == answered["message_ids"]

            def newest() -> Any:
                return second.api.get("/runs", params={"thread_id": "t"}).json()["items"][0]

            until(lambda: newest()["status"] == "interrupted", within_s=40, pause_s=0.5)
            run = second.api.get(f"/runs/{newest()['id']}").json()
            assert "still there?" in str(run["input"])


def _ignoring_the_end(demo: Demo, body: dict[str, Any]) -> None:
    try:
        demo.api.post("/agents/e2e/generate", json=body)
    except httpx.HTTPError:
        return
