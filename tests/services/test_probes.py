"""Probes against the sandbox: what is sent, what the two answers say, what is stored, and when it ends."""

from __future__ import annotations

from typing import Any

import pytest

from memory.errors import InvalidInput
from memory.models import AuditEvent, Provider, RuleProbe
from memory.providers.http import Client
from memory.sandbox import Sandbox
from memory.services.probes import Answer, ProbeStopped, is_in_known_words, outcome_of, planned, probe, probes_of
from tests.make import caller

CHARSET = "anthropic-tool-id-charset"
ACCEPTED = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-5",
    "content": [{"type": "text", "text": "Fine."}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 1, "output_tokens": 1},
}


class Waits(list[float]):
    def __call__(self, seconds: float) -> None:
        self.append(seconds)


def probed(provider: str, *rules: str, model_id: str = "", wait: Waits | None = None) -> list[RuleProbe]:
    trials = planned(provider, model_id=model_id, rules=rules)
    with Client() as client:
        return list(probe(caller(), provider, trials, client=client, wait=Waits() if wait is None else wait))


class TestPlan:
    def test_has_every_rule_that_acts_for_the_connection(self, sandbox: Sandbox) -> None:
        rules = [trial.example.rule for trial in planned("anthropic")]
        assert len(rules) == len(set(rules)) > 15
        assert CHARSET in rules
        assert not any(rule.startswith(("openai-", "gemini-")) for rule in rules)

    def test_takes_a_named_model_where_its_rules_differ(self, sandbox: Sandbox) -> None:
        """Only models that can't go on with an answer need the user's last word without thinking."""
        for model, acts in (("claude-opus-4-6", True), ("claude-sonnet-4-5", False)):
            found = {trial.example.rule: trial for trial in planned("anthropic", model_id=model)}
            assert ("anthropic-prefill-unsupported" in found) is acts
            assert {trial.model_id for trial in found.values()} == {model}

    def test_borrows_an_example_of_the_protocol_for_a_named_model(self, sandbox: Sandbox) -> None:
        Provider.objects.create(id="azure", protocol="openai-chat", base_url="sandbox:azure")
        assert [trial.example.rule for trial in planned("azure")] == [
            "azure-content-filter",
            "azure-developer-role",
        ]
        assert "openai-chat-tool-id-length" in {trial.example.rule for trial in planned("azure", model_id="gpt-4o")}

    @pytest.mark.parametrize(
        ("provider", "rules", "words"),
        [
            ("nobody", (), "no provider is called 'nobody'"),
            ("anthropic", ("anthropic-tool-id-charsets",), "did you mean anthropic-tool-id-charset?"),
            ("anthropic", ("openai-chat-tool-name",), "no rule openai-chat-tool-name has an example for anthropic"),
            ("azure", (), "azure has no address"),
        ],
    )
    def test_says_what_can_not_be(self, sandbox: Sandbox, provider: str, rules: tuple[str, ...], words: str) -> None:
        with pytest.raises(InvalidInput) as raised:
            planned(provider, rules=rules)
        assert words in str(raised.value)
        assert sandbox.requests() == []


class TestOutcome:
    @pytest.mark.parametrize("provider", ["anthropic", "openai", "cerebras"])
    def test_every_fact_holds_at_the_sandbox(self, sandbox: Sandbox, provider: str) -> None:
        rows = probed(provider)
        # Looked at beside the sandbox's own tests: these are taken there either way.
        taken = {"any-foreign-block", "openai-chat-null-content", "anthropic-thinking-empty"}
        taken |= {"anthropic-role-alternation"}  # of older Claude
        assert {row.rule: row.outcome for row in rows if row.rule not in taken and row.outcome != "holds"} == {}
        # An empty text is looked at first: that is what a message without content is written as.
        others = {row.rule for row in rows if is_in_known_words(row) is False}
        assert others <= {"anthropic-empty-message"}
        assert len(sandbox.requests(provider)) == 2 * len(rows)
        assert RuleProbe.objects.count() == len(rows)

    def test_stores_both_answers_and_who_asked(self, sandbox: Sandbox) -> None:
        probed("anthropic", CHARSET)
        row = RuleProbe.objects.get()
        assert (row.rule, row.provider, row.protocol) == (CHARSET, "anthropic", "anthropic-messages")
        assert (row.model_id, row.outcome, row.probed_by) == ("claude-sonnet-4-5", "holds", "tester")
        assert (row.raw_status, row.cured_status, row.cured_error) == (400, 200, "")
        assert row.raw_error == "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
        assert AuditEvent.objects.get().detail == {"rules": [CHARSET]}

    def test_a_fact_that_no_longer_holds_is_not_needed(self, sandbox: Sandbox) -> None:
        sandbox.script("anthropic", status=200, body=ACCEPTED)
        assert [row.outcome for row in probed("anthropic", CHARSET)] == ["not needed"]

    def test_a_cure_that_is_refused_fails_with_the_providers_words(self, sandbox: Sandbox) -> None:
        error = {"type": "error", "error": {"type": "invalid_request_error", "message": "ids must rhyme"}}
        sandbox.script("anthropic", status=400, body=error, times=2)
        rows = probed("anthropic", CHARSET)
        assert [(row.outcome, row.cured_status, row.cured_error) for row in rows] == [
            ("cure fails", 400, "ids must rhyme")
        ]

    def test_a_later_probe_takes_the_place_of_an_earlier_one(self, sandbox: Sandbox) -> None:
        sandbox.script("anthropic", status=200, body=ACCEPTED)
        probed("anthropic", CHARSET)
        probed("anthropic", CHARSET)
        probed("anthropic", CHARSET, model_id="claude-opus-4-6")
        assert [(row.model_id, row.outcome) for row in probes_of(CHARSET)] == [
            ("claude-opus-4-6", "holds"),
            ("claude-sonnet-4-5", "holds"),
        ]
        assert probes_of("any-file") == []

    def test_an_error_inside_a_200_is_a_refusal(self) -> None:
        refused = Answer(200, "bad input (2013)", is_refused=True)
        assert outcome_of(refused, Answer(200)) == "holds"
        assert outcome_of(Answer(200), refused) == "cure fails"

    def test_an_answer_that_can_not_be_read_says_nothing_of_the_rule(self, sandbox: Sandbox) -> None:
        sandbox.script("anthropic", status=200, body="<html>", times=4)
        rows = probed("anthropic", CHARSET)
        assert [(row.outcome, row.raw_status) for row in rows] == [("no answer", 200)]
        assert "can't be read" in rows[0].raw_error

    def test_a_model_that_is_gone_says_nothing_of_the_rule(self, sandbox: Sandbox) -> None:
        error = {"type": "error", "error": {"type": "not_found_error", "message": "model: claude-sonnet-4-5"}}
        sandbox.script("anthropic", status=404, body=error, times=2)
        rows = probed("anthropic", CHARSET)
        assert [(row.outcome, row.cured_error) for row in rows] == [("no answer", "model: claude-sonnet-4-5")]

    def test_tells_a_refusal_for_another_reason(self, sandbox: Sandbox) -> None:
        error = {"type": "error", "error": {"type": "invalid_request_error", "message": "ids must rhyme"}}
        sandbox.script("anthropic", status=400, body=error)
        (odd,) = probed("anthropic", CHARSET)
        (known,) = probed("anthropic", CHARSET)
        assert (odd.outcome, is_in_known_words(odd)) == ("holds", False)
        assert (known.outcome, is_in_known_words(known)) == ("holds", True)

    def test_a_server_that_fails_says_nothing_of_the_rule(self, sandbox: Sandbox) -> None:
        sandbox.script("anthropic", status=500, times=4)
        waits = Waits()
        rows = probed("anthropic", CHARSET, wait=waits)
        assert [(row.outcome, row.raw_status, row.cured_status) for row in rows] == [("no answer", 500, 200)]
        assert waits == [2, 4, 8]


class TestLimits:
    def test_waits_as_the_provider_asks(self, sandbox: Sandbox) -> None:
        sandbox.script("anthropic", status=429, headers={"retry-after": "7"})
        waits = Waits()
        assert [row.outcome for row in probed("anthropic", CHARSET, wait=waits)] == ["holds"]
        assert waits == [7]
        assert len(sandbox.requests("anthropic")) == 3

    @pytest.mark.parametrize(
        ("scripted", "words"),
        [
            ({"status": 401}, "anthropic refuses this key (401): invalid x-api-key"),
            ({"status": 403}, "anthropic refuses this key (403)"),
            ({"status": 402}, "anthropic takes no more calls on this account (402)"),
            ({"status": 429, "headers": {"retry-after": "7200"}}, "anthropic asks to wait 7,200 seconds"),
            (
                {"status": 400, "body": {"error": {"type": "billing_error", "message": "credit balance is too low"}}},
                "anthropic takes no more calls on this account (400): credit balance is too low",
            ),
        ],
    )
    def test_stops_when_every_call_would_end_alike(
        self, sandbox: Sandbox, scripted: dict[str, Any], words: str
    ) -> None:
        trials = planned("anthropic", rules=[CHARSET, "anthropic-empty-text"])
        with Client() as client:
            found = probe(caller(), "anthropic", trials, client=client, wait=Waits())
            first = next(found)
            sandbox.script("anthropic", **scripted)
            with pytest.raises(ProbeStopped, match=r"^anthropic ") as raised:
                next(found)
        assert str(raised.value).startswith(words)
        assert [row.rule for row in RuleProbe.objects.all()] == [first.rule]
        assert len(sandbox.requests("anthropic")) == 3

    def test_stops_when_nobody_is_there(self, sandbox: Sandbox) -> None:
        Provider.objects.filter(id="anthropic").update(base_url="http://127.0.0.1:9", key_ref="")
        with pytest.raises(ProbeStopped, match="anthropic can't be reached"):
            probed("anthropic", CHARSET)
        assert not RuleProbe.objects.exists()

    def test_no_key_sends_nothing(self, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("PROBE_KEY", raising=False)
        Provider.objects.filter(id="anthropic").update(base_url=f"{sandbox.url}/anthropic/v1", key_ref="env:PROBE_KEY")
        with pytest.raises(InvalidInput, match="there is no key in env:PROBE_KEY"):
            probed("anthropic", CHARSET)
        assert sandbox.requests() == []
        assert not AuditEvent.objects.exists()


def test_keys_are_stored_nowhere(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """A provider that repeats the key, and a header of the connection, in its refusal."""
    monkeypatch.setenv("PROBE_KEY", "sk-very-secret")
    address = {"base_url": f"{sandbox.url}/anthropic/v1", "key_ref": "env:PROBE_KEY"}
    Provider.objects.filter(id="anthropic").update(**address, headers={"x-tenant": "tenant-secret"})
    message = "ids of sk-very-secret and tenant-secret must rhyme\0"
    sandbox.script("anthropic", status=400, body={"error": {"type": "invalid_request_error", "message": message}})
    probed("anthropic", CHARSET)
    assert RuleProbe.objects.get().raw_error == "ids of [key] and [key] must rhyme\ufffd"
