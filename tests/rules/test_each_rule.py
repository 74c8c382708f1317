"""Each rule against the pretend providers: without it they refuse its history, with it they take it.

Both requests are made by the pipeline and sent over HTTP to the address and with the headers of a run.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

import memory.sandbox
from memory.messages.convert import to_prompt
from memory.messages.names import ModelRef
from memory.messages.prompt import Prompt
from memory.messages.stored import StoredMessage
from memory.processors.compat.catalogue import RULES
from memory.processors.compat.errors import texts_of
from memory.processors.compat.examples import Example, all_examples, examples_for
from memory.processors.compat.faults import STRICT, known_faults
from memory.processors.compat.passes import CATALOGUE, Step
from memory.processors.compat.passes.call import Call
from memory.processors.compat.passes.facts import facts_of
from memory.processors.compat.repairs import drop_orphan_item_ids, rename_bad_tool_ids
from memory.profiles import profile_for
from memory.profiles.profile import Profile
from memory.providers import entry_for, wire_module
from memory.providers.http import Client, Connection, Exchange
from memory.providers.wire import Encoded
from memory.sandbox import Sandbox
from memory.trials import Trial, trial_of

TAKEN_ANYWAY = {
    # Our own encoder writes an empty text where others write null, and the vendor takes that; the rule spares the turn.
    "openai-chat-null-content",
    # A protocol has no word for another vendor's block, so the encoder leaves it out; the rule says so, and keeps what
    # can be read of it.
    "any-foreign-block",
    # A server that keeps the conversation takes it once more: it is read, and paid for, twice.
    "any-server-state",
}
"""Rules without which the request is taken too, with what they are good for."""
PLAYED = {
    # No pretend provider counts tokens.
    "any-context-overflow",
    # Azure's filter behind a host that is not Azure: no pretend host has it.
    "any-reminder-tags",
    # Signed thinking without text was taken in recorded traffic, so it is taken here; reports say otherwise.
    "anthropic-thinking-empty",
    # No pretend host keeps requests in a database that can't hold U+0000.
    "any-nul-character",
    # Reported of one host of the model, whose pretend one reads what it knows.
    "zhipu-part-field",
    # Only xAI is known to mind nulls, only Groq to mind a list; here another host says the same.
    "any-null-field",
    "any-content-string",
    # DeepSeek's and Moonshot's alone, said by another host.
    "any-reasoning-required",
    # Old versions of the API, and older models, which are not played.
    "azure-developer-role",
    "anthropic-role-alternation",
}
"""Rules whose refusal is scripted, as nobody here would make it."""
UNWRITTEN = {
    # Half a character can't be written as UTF-8.
    "any-lone-surrogate": "surrogates not allowed",
    # Converse has no word for a call that another provider ran.
    "any-hosted-tool": "another provider ran itself",
}
"""Rules without which there is no request at all, with what the encoder says."""
OTHER_WORDS = {
    # A text of nothing is looked at before the message that holds nothing else.
    "anthropic-empty-message": "text content blocks must be non-empty",
    "bedrock-empty-content": "is blank",
    # The rule above the net is known by the same words.
    "anthropic-tool-id-format": "String should match pattern",
    # Known by its words for another kind of item.
    "openai-responses-reasoning-orphan": "was provided without its required 'reasoning' item",
    # Hosts with words of their own, or with the same ones for everything.
    "any-empty-result": "empty array",
    "any-developer-role": "Input tag 'developer' found",
    "any-media-in-result": "The messages parameter is illegal",
    "any-file": "image_url' is unsupported",
    "any-reasoning": "Corrupted thought signature",
    "any-duplicate-id": "No tool call found for function call output",
    "any-media-type": "the image appears to be a image/jpeg image",
    "any-role-order": "System message must be at the beginning",
    # Words that no rule is known by, as no report has them.
    "any-input-object": "Provide a json object",
    "openai-responses-reasoning-foreign": "Missing required parameter: 'input[1].id'",
}
"""Rules whose fault is refused in words that ask for another rule, or for none."""
EXAMPLES = {f"{rule} {number}": example for rule in RULES for number, example in enumerate(examples_for(rule), start=1)}
REFUSED = {name: one for name, one in EXAMPLES.items() if one.rule not in TAKEN_ANYWAY | PLAYED | UNWRITTEN.keys()}
REPAIRS = {
    "anthropic-tool-id-format": rename_bad_tool_ids,
    "openai-responses-reasoning-orphan": drop_orphan_item_ids,
}
"""Lasting repairs, which have no pass."""


class Sender:
    """Sends requests of trials to the pretend provider they are made for."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.client = Client()

    def __call__(self, trial: Trial, request: Encoded | None) -> Exchange:
        assert request is not None
        address = f"{self.sandbox.url}/{trial.provider}/v1"
        return self.client.call(Connection(trial.provider, trial.protocol, address, "any-key"), request)


@pytest.fixture(scope="module")
def send() -> Iterator[Sender]:
    sandbox = memory.sandbox.start()
    sender = Sender(sandbox)
    yield sender
    sender.client.close()
    sandbox.stop()


class TestSwitchedOff:
    @pytest.mark.parametrize("example", REFUSED.values(), ids=REFUSED)
    def test_the_history_is_refused(self, send: Sender, example: Example) -> None:
        trial = trial_of(example)
        answer = send(trial, trial.raw)
        assert (answer.status in (400, 404, 422), answer.text) == (True, answer.text)

    @pytest.mark.parametrize("example", REFUSED.values(), ids=REFUSED)
    def test_it_is_refused_for_the_rules_own_fault(self, send: Sender, example: Example) -> None:
        trial = trial_of(example)
        answer = send(trial, trial.raw)
        error = wire_module(trial.protocol).decode_error(
            answer.status, answer.headers, answer.text, provider=trial.provider
        )
        profile = profile_for(ModelRef(trial.provider, trial.model_id), trial.protocol)
        found = known_faults(texts_of(error), profile)
        asked = {rule for known, faults in found for rule in (known, *map(profile.rule, faults))}
        assert example.rule in asked or OTHER_WORDS.get(example.rule, "no words") in error.message, error.message

    @pytest.mark.parametrize("example", [one for one in REFUSED.values() if one.error], ids=lambda one: one.rule)
    def test_it_is_refused_in_the_words_that_ask_for_the_rule(self, send: Sender, example: Example) -> None:
        """What the example says of the error is what the pretend provider says."""
        trial = trial_of(example)
        assert example.error is not None
        answered = replace(example, error=replace(example.error, body=send(trial, trial.raw).text))
        assert trial_of(answered).acts

    @pytest.mark.parametrize("rule", sorted(TAKEN_ANYWAY))
    def test_what_is_listed_is_taken_indeed(self, send: Sender, rule: str) -> None:
        trial = trial_of(next(one for one in all_examples() if one.rule == rule))
        assert send(trial, trial.raw).status == 200

    @pytest.mark.parametrize("rule", UNWRITTEN)
    def test_what_can_not_be_written_is_not_sent(self, rule: str) -> None:
        trial = trial_of(next(one for one in all_examples() if one.rule == rule))
        assert trial.raw is None
        assert UNWRITTEN[rule] in trial.raw_problem


class TestSwitchedOn:
    @pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
    def test_the_history_is_taken(self, send: Sender, example: Example) -> None:
        trial = trial_of(example)
        answer = send(trial, trial.cured)
        assert (answer.status, answer.text) == (200, answer.text)

    @pytest.mark.parametrize("rule", sorted(PLAYED))
    def test_a_scripted_refusal_asks_for_it(self, send: Sender, rule: str) -> None:
        example = next(one for one in all_examples() if one.rule == rule)
        assert example.error is not None
        send.sandbox.script(example.provider, status=example.error.status, body=example.error.body)
        trial = trial_of(example)
        refused = send(trial, trial.raw)
        answered = replace(example, error=replace(example.error, status=refused.status, body=refused.text))
        again = trial_of(answered)
        assert again.acts
        assert send(again, again.cured).status == 200

    def test_every_rule_is_looked_at(self) -> None:
        assert {example.rule for example in EXAMPLES.values()} == set(RULES)


class TestCleanHistory:
    @pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
    def test_comes_back_from_its_pass_as_the_same_object(self, example: Example) -> None:
        if example.rule in REPAIRS:
            messages = _clean()
            assert REPAIRS[example.rule](messages) is False
            assert messages == _clean()
            return
        profile, steps = _passes(example)
        assert steps
        for step in steps:
            # Where a turn of the assistant is itself what is cut off, a clean history is a question alone.
            is_cut = step.fault in ("context-overflow", "server-state")
            clean = to_prompt(_clean()[-1:] if is_cut else _clean())
            assert _run(step, clean, profile, example) is clean

    @pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
    def test_so_does_the_history_that_it_cured(self, example: Example) -> None:
        if example.rule in REPAIRS or example.rule == "any-context-overflow":
            return  # The one has no pass, the other halves what is there as often as it is asked.
        cured = trial_of(example).prompt
        profile, steps = _passes(example)
        for step in steps:
            assert _run(step, cured, profile, example) is cured


def _clean() -> list[StoredMessage]:
    """What every provider takes: a question, an answer, a question."""
    said = (("user", "How many cups are left?"), ("assistant", "Three."), ("user", "Thanks. And plates?"))
    return [
        {"id": f"m{number}", "role": role, "content": {"format": 2, "parts": [{"type": "text", "text": text}]}}
        for number, (role, text) in enumerate(said)
    ]


def _passes(example: Example) -> tuple[Profile, list[Step]]:
    """The passes behind a rule for the example's target."""
    protocol = example.protocol or entry_for(example.provider).protocol
    profile = profile_for(ModelRef(example.provider, example.model), protocol)
    own = [step for step in CATALOGUE if profile.rule(step.fault) == example.rule]
    if own or example.error is None:
        return profile, own
    words = example.error.body if isinstance(example.error.body, str) else str(example.error.body)
    known = {fault for rule, faults in known_faults([words], profile) if rule == example.rule for fault in faults}
    return profile, [step for step in CATALOGUE if step.fault in known]


def _run(step: Step, prompt: Prompt, profile: Profile, example: Example) -> Prompt:
    """The prompt after a pass, which insists on its fact where an error asked for it."""
    declared = frozenset(str(tool["name"]) for tool in example.tools)
    forced = (step.fault,) if example.error else ()
    facts = facts_of(prompt, declared)
    facts.call = Call(example.model, example.settings, declared, forced, bool(forced))
    target = replace(profile, **STRICT.get(step.fault, {})) if forced else profile
    if not forced and not step.may_act(target, facts):
        return prompt
    return step.run(prompt, target, facts, example.rule)[0]
