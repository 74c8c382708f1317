"""The examples of bring-your-own-call run as they stand there, with the vendors' own clients against the sandbox."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import memory.sandbox
from memory.sandbox import Sandbox
from tests import npm

HERE = Path(__file__).resolve().parent
PAGE = (HERE.parents[1] / "docs" / "bring-your-own-call.md").read_text(encoding="utf-8")
TRAVEL = {
    "id": "travel",
    "name": "Travel",
    "model": "anthropic/claude-sonnet-4-5",
    "settings": {"max_tokens": 100},
    "input_processors": ["message-history", "provider-history-compat"],
    "output_processors": ["message-history"],
    "error_processors": [{"id": "stream-error-retry-processor", "options": {"max_retries": 2}}],
}


def block(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.M | re.S)
    return str(found)


@pytest.fixture
def sandbox(transactional_db: None) -> Iterator[Sandbox]:
    """A provider that is overloaded at the first call."""
    from memory.models import Provider
    from memory.services import agents
    from tests import make

    agents.create_agent(make.caller(), TRAVEL)
    thread = make.make_thread("user-1", id="t1")
    make.add_messages(
        thread,
        make.text("Where does the train go?"),
        make.message(make.tool_call("call:1.a", "result", result="to Bergen"), {"type": "text", "text": "To Bergen."}),
    )
    started = memory.sandbox.start()
    for provider, protocol in (("anthropic", "anthropic-messages"), ("openai", "openai-chat")):
        Provider.objects.create(id=provider, protocol=protocol, base_url=f"sandbox:{provider}")
        started.script(provider, status=503 if provider == "openai" else 529)
    yield started
    started.stop()


def environment(live_server: Any, sandbox: Sandbox) -> dict[str, str]:
    from tests import make

    return {
        **os.environ,
        "COMPAT_ADMIN_URL": live_server.url,
        "COMPAT_ADMIN_KEY": make.make_key("user-1"),
        "ANTHROPIC_BASE_URL": f"{sandbox.url}/anthropic",
        "ANTHROPIC_API_KEY": "my own",
        "OPENAI_BASE_URL": f"{sandbox.url}/openai/v1",
        "OPENAI_API_KEY": "my own",
        "NO_PROXY": "127.0.0.1,localhost",
    }


def check(said: str, provider: str) -> None:
    """The example came through the overload, and the ledger and the thread tell it as for a call of ours."""
    from memory.models import Attempt, Message, Run

    assert said == "succeeded You said: And back?\n"
    run = Run.objects.get()
    assert (run.status, run.attempt_count, run.is_own_call) == ("succeeded", 2, True)
    assert list(Attempt.objects.order_by("number").values_list("decision", flat=True)) == ["retry", "answered"]
    assert Message.objects.filter(thread_id="t1").order_by("-seq")[0].provider == provider
    assert Message.objects.filter(thread_id="t1").count() == 4


def test_python(sandbox: Sandbox, live_server: Any) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", block("python")],
        env=environment(live_server, sandbox),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
    check(ended.stdout, "anthropic")


def test_javascript(sandbox: Sandbox, live_server: Any) -> None:
    folder, node = npm.installed(HERE / "own_call", "openai", needs=(20, 0))
    ended = subprocess.run(
        [node, "--input-type=module", "-e", block("js")],
        cwd=folder,
        env=environment(live_server, sandbox),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
    check(ended.stdout, "openai")
