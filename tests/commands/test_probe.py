"""`manage.py probe` against a sandbox that runs as a server of its own."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import CommandError, call_command

import memory.sandbox
from memory.management.commands.probe import Command
from memory.models import Provider, RuleProbe
from memory.sandbox import Sandbox

pytestmark = pytest.mark.django_db
CHARSET = "anthropic-tool-id-charset"


@pytest.fixture(scope="module")
def running() -> Iterator[Sandbox]:
    started = memory.sandbox.start()
    yield started
    started.stop()


@pytest.fixture
def sandbox(running: Sandbox, monkeypatch: pytest.MonkeyPatch, db: None) -> Iterator[Sandbox]:
    """The sandbox as an operator's own connection with a key."""
    running.clear()
    monkeypatch.setenv("PROBE_KEY", "sk-very-secret")
    address = f"{running.url}/anthropic/v1"
    Provider.objects.create(id="anthropic", protocol="anthropic-messages", base_url=address, key_ref="env:PROBE_KEY")
    yield running
    running.clear()


def run(*arguments: str) -> tuple[str, int]:
    """What it prints, and with which code it ends."""
    out = io.StringIO()
    try:
        call_command("probe", *arguments, stdout=out)
    except SystemExit as end:
        return out.getvalue(), int(end.code or 0)
    return out.getvalue(), 0


def test_says_how_many_calls_and_prints_each_answer(sandbox: Sandbox) -> None:
    said, code = run("anthropic", "--rule", CHARSET, "--rule", "anthropic-empty-text", "--yes")
    lines = said.splitlines()
    assert code == 0
    assert lines[0] == "2 rules, so 4 calls to anthropic (claude-sonnet-4-5)."
    assert lines[1] == (
        "holds       anthropic-tool-id-charset (claude-sonnet-4-5): refused as it is, accepted as the rule sends it"
    )
    assert lines[2].strip() == (
        "as it is: 400 messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
    )
    assert lines[-1] == "holds: 2, not needed: 0, cure fails: 0, no answer: 0"
    assert len(sandbox.requests("anthropic")) == 4


def test_a_cure_that_fails_ends_with_1_and_the_providers_words(sandbox: Sandbox) -> None:
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": "no \x1b[31mred\x1b[0m ids"}}
    sandbox.script("anthropic", status=400, body=error, times=2)
    said, code = run("anthropic", "--rule", CHARSET, "--yes")
    assert code == 1
    assert "cure fails  anthropic-tool-id-charset" in said
    assert "as sent: 400 no  [31mred [0m ids" in said
    assert "Both were refused in the same words" in said


def test_a_refusal_in_unknown_words_is_said_to_be_one(sandbox: Sandbox) -> None:
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": "ids must rhyme"}}
    sandbox.script("anthropic", status=400, body=error)
    said, code = run("anthropic", "--rule", CHARSET, "--yes")
    assert code == 0
    assert "Refused in words that the rule is not known by: perhaps for another reason." in said


def test_a_refused_key_stops_it_in_one_sentence(sandbox: Sandbox) -> None:
    sandbox.script("anthropic", status=401)
    with pytest.raises(CommandError) as raised:
        run("anthropic", "--yes")
    assert str(raised.value).startswith("Stopped: anthropic refuses this key (401): invalid x-api-key. 0 of ")
    assert len(sandbox.requests("anthropic")) == 1


class Interrupted(Command):
    """The operator presses Ctrl-C while it waits for a busy provider."""

    @staticmethod
    def wait(seconds: float) -> None:
        raise KeyboardInterrupt


def test_an_interrupt_keeps_what_was_stored(sandbox: Sandbox) -> None:
    out = Busy(sandbox)
    with pytest.raises(SystemExit) as ended:
        rules = ["--rule", CHARSET, "--rule", "anthropic-empty-text"]
        call_command(Interrupted(), "anthropic", *rules, "--yes", stdout=out)
    assert ended.value.code == 130
    assert "Interrupted. 1 of 2 rules were probed, and their answers are kept." in out.getvalue()
    assert [row.rule for row in RuleProbe.objects.all()] == [CHARSET]


class Busy(io.StringIO):
    """Paper on which the first outcome is printed; from then on the provider is busy."""

    def __init__(self, sandbox: Sandbox) -> None:
        super().__init__()
        self._sandbox = sandbox

    def write(self, text: str) -> int:
        if text.startswith("holds"):
            self._sandbox.script("anthropic", status=429, headers={"retry-after": "60"})
        return super().write(text)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nobody", "--yes"), "no provider is called 'nobody'."),
        (("anthropic", "--rule", "no-such", "--yes"), "no rule is called 'no-such'"),
        (("anthropic",), "Nobody is here to agree: say --yes. Nothing was sent."),
    ],
)
def test_says_what_is_wrong_and_sends_nothing(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], words: str
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    with pytest.raises(CommandError) as raised:
        run(*arguments)
    assert words in str(raised.value)
    assert sandbox.requests() == []


def test_no_key_is_said_before_any_call(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PROBE_KEY")
    with pytest.raises(CommandError, match=r"there is no key in env:PROBE_KEY. Nothing was sent\."):
        run("anthropic", "--yes")
    assert sandbox.requests() == []


def answers(*lines: str) -> Any:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    return Terminal("\n".join(lines) + "\n")


@pytest.mark.parametrize(("typed", "count"), [("y", 2), ("n", 0)])
def test_asks_before_it_calls(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, typed: str, count: int) -> None:
    monkeypatch.setattr("sys.stdin", answers(typed))
    try:
        run("anthropic", "--rule", CHARSET)
    except CommandError as error:
        assert str(error) == "Nothing was sent."
    assert len(sandbox.requests("anthropic")) == count
