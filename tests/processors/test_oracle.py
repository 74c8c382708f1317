"""Any stored thread to any provider: taken, the same when done twice, and every difference named by a rule."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory.messages.convert import to_prompt
from memory.messages.names import ModelRef
from memory.messages.prompt import Message, Part, Prompt, Text, ToolResult
from memory.processors import Switches
from memory.processors.changes import Change, spot_of
from memory.processors.compat.faults import known_faults
from memory.processors.compat.passes import CATALOGUE
from memory.processors.compat.passes.call import Call
from memory.processors.compat.processor import run_steps
from memory.profiles import PROFILES, profile_for
from memory.providers.calls import request_for
from memory.providers.wire import Encoded, Settings
from memory.sandbox.vendors import VENDORS, find
from memory.sandbox.wire import Refused, read_json
from tests import nasty
from tests.sandbox.demo_threads import MODEL_TARGETS as TARGETS
from tests.sandbox.demo_threads import Target
from tests.sdk.differences import unfit

GO_ON = Message("user", (Text("Go on."),))
many = settings(max_examples=25, suppress_health_check=list(HealthCheck))


_MAKERS_WORDS = ("ignature", "encrypted", "thinking.")
"""In which a refusal is about seals and what stands beside them: only their maker can tell whether these are good."""


class Sent(msgspec.Struct, frozen=True):
    prompt: Prompt
    changes: list[Change]
    names: dict[str, str]
    needs: dict[str, Any]


def rewritten(prompt: Prompt, target: Target, *, forced: tuple[str, ...] = (), declared: tuple[str, ...] = ()) -> Sent:
    provider, protocol, model = target
    call = Call(model, {}, frozenset(declared), forced)
    profile = profile_for(ModelRef(provider, model), protocol)
    out, changes, _, names = run_steps(CATALOGUE, prompt, profile, Switches(), tool_names=declared, call=call)
    return Sent(out, changes, names, call.needs)


def encoded(sent: Sent, target: Target) -> Encoded:
    provider, protocol, model = target
    settings = Settings(model, max_tokens=100)
    return request_for(provider, protocol, sent.prompt, settings, tool_names=sent.names, needs=sent.needs)


def refusal(sent: Sent, target: Target) -> str | None:
    """What the pretend provider says against a request; None when it would answer."""
    request = encoded(sent, target)
    found = find(target[0], f"/v1{request.path}")
    assert found is not None
    vendor, said = found
    try:
        vendor.check({**read_json(request.body), **said})
    except Refused as refused:
        return msgspec.json.encode(vendor.error_body(refused, "")).decode() + "\n" + refused.message
    return None


def accepted(prompt: Prompt, target: Target) -> tuple[Sent, str]:
    """The request that is taken in the end, and what speaks against it, if anything still does.

    Whether a seal is genuine only its maker can tell: where it says no, what its error asks for is done, once a rule.
    """
    sent = rewritten(prompt, target)
    said = refusal(sent, target)
    forced: tuple[str, ...] = ()
    profile = profile_for(ModelRef(target[0], target[2]), target[1])
    for _ in range(3):
        if said is None or not any(words in said for words in _MAKERS_WORDS):
            break
        asked = next((faults for _, faults in known_faults([said], profile)), ())
        forced = tuple(dict.fromkeys((*forced, *asked)))
        sent = rewritten(prompt, target, forced=forced)
        said = refusal(sent, target) if sent.prompt.messages else None
    return sent, said or ""


_INVENTED = tuple(f".{key}: unknown" for key in nasty.FURTHER)


def unfit_at(sent: Sent, target: Target) -> set[str]:
    """What the vendor's own types say against the request.

    A host of OpenAI's chat protocol gets back what it wrote itself, whatever it was: the types are not its own.
    """
    provider, protocol, _ = target
    found = unfit(provider, protocol, msgspec.json.decode(encoded(sent, target).body))
    if protocol != "openai-chat" or provider in ("openai", "azure", "mistral"):
        return found
    return {fault for fault in found if not fault.endswith(_INVENTED) and ".image_url.detail: " not in fault}


# What differs


def _placed(prompt: Prompt) -> Iterator[tuple[tuple[str, int | None, str], str, Part]]:
    for message in prompt.messages:
        for part in message.parts:
            spot = spot_of(message, part)
            kind = "result" if isinstance(part, ToolResult) else "said"
            yield (spot.message_id, spot.part, kind), message.role, msgspec.structs.replace(part, at=None)


def unattributed(before: Prompt, after: Prompt, changes: list[Change]) -> list[Any]:
    """Parts that differ, are gone or are new, and that no change names."""
    named = {(c.spot.message_id, c.spot.part) for c in changes} | {(c.spot.message_id, None) for c in changes}
    whole = {c.spot.message_id for c in changes if c.spot.part is None}
    old: dict[Any, list[Any]] = {}
    new: dict[Any, list[Any]] = {}
    for target, prompt in ((old, before), (new, after)):
        for spot, role, part in _placed(prompt):
            target.setdefault(spot, []).append((role, part))
    found: list[Any] = []
    for spot in {**old, **new}:
        if old.get(spot) == new.get(spot):
            continue
        message_id, at, _ = spot
        if at is None and any((change.after or change.before) is not None for change in changes):
            continue  # what no stored part stands for: a message's text, and what a pass put beside it
        if (message_id, at) not in named and message_id not in whole:
            found.append((spot, old.get(spot), new.get(spot)))
    return found


def thread_and_prompt(data: st.DataObject) -> tuple[list[dict[str, Any]], Prompt]:
    thread = data.draw(nasty.threads())
    prompt = to_prompt(thread)
    if prompt.messages and data.draw(st.booleans()):
        prompt = Prompt((*prompt.messages, GO_ON))
    return thread, prompt


class TestAnyThread:
    @many
    @given(data=st.data())
    def test_is_taken_by_every_provider(self, data: st.DataObject) -> None:
        thread, prompt = thread_and_prompt(data)
        before = copy.deepcopy(thread)
        refused: dict[Target, Any] = {}
        for target in TARGETS:
            if not rewritten(prompt, target).prompt.messages:
                continue  # nothing was said
            sent, said = accepted(prompt, target)
            if faults := said or unfit_at(sent, target):
                refused[target] = faults
        assert refused == {}
        assert thread == before

    @many
    @given(data=st.data())
    def test_is_left_alone_the_second_time(self, data: st.DataObject) -> None:
        _, prompt = thread_and_prompt(data)
        changed = {}
        for target in TARGETS:
            once = rewritten(prompt, target)
            twice = rewritten(once.prompt, target, declared=tuple(once.needs.get("declare_tools") or ()))
            if twice.prompt is not once.prompt:
                changed[target] = [change.rule for change in twice.changes]
        assert changed == {}

    @many
    @given(data=st.data())
    def test_differs_from_what_is_sent_only_where_a_rule_says_so(self, data: st.DataObject) -> None:
        _, prompt = thread_and_prompt(data)
        found = {}
        for target in TARGETS:
            sent = rewritten(prompt, target)
            if missing := unattributed(prompt, sent.prompt, sent.changes):
                found[target] = missing
            assert sent.changes or sent.prompt is prompt
        assert found == {}

    @many
    @given(data=st.data())
    def test_reaches_the_provider_whole_once_rewritten(self, data: st.DataObject) -> None:
        """Every part of the rewritten prompt has a place in the request: nothing is lost on the way to the wire."""
        _, prompt = thread_and_prompt(data)
        lost = {}
        for target in TARGETS:
            sent = rewritten(prompt, target)
            if not sent.prompt.messages:
                continue
            places = encoded(sent, target).places
            gone = [
                part
                for i, message in enumerate(sent.prompt.messages)
                for j, part in enumerate(message.parts)
                if (i, j) not in places and message.role != "system"
            ]
            if gone:
                lost[target] = gone
        assert lost == {}


def test_every_profile_has_a_target() -> None:
    met = {profile_for(ModelRef(provider, model), protocol).id for provider, protocol, model in TARGETS}
    # Claude's own protocol on other platforms is checked by the same words.
    unmet = {profile.id for profile in PROFILES if "anthropic" not in profile.id} - met
    assert unmet == set()


@pytest.mark.parametrize("provider", sorted(VENDORS))
def test_every_provider_is_a_target(provider: str) -> None:
    assert any(target[0] == provider for target in TARGETS)


def said(prompt: Prompt) -> list[Any]:
    """Roles and parts one by one: a message that grows at its end keeps its beginning."""
    return [(message.role, part) for message in prompt.messages for part in message.parts]


def unannounced(thread: list[dict[str, Any]], target: Target) -> list[Any]:
    """Turns whose request does not begin with the one before, although no change of either says so."""
    sent = [rewritten(to_prompt(thread[:count]), target) for count in range(1, len(thread) + 1)]
    found = []
    for number, (before, after) in enumerate(pairwise(sent), start=1):
        old, new = said(before.prompt), said(after.prompt)
        if new[: len(old)] != old and not any(change.breaks_prefix for change in (*before.changes, *after.changes)):
            first = next((at for at, part in enumerate(old) if new[at : at + 1] != [part]), len(old))
            found.append((number, old[first : first + 1], new[first : first + 1]))
    return found


class TestGrowingThread:
    @many
    @given(thread=nasty.threads(max_size=6))
    def test_keeps_its_prefix_or_says_so(self, thread: list[dict[str, Any]]) -> None:
        found = {target: turns for target in TARGETS if (turns := unannounced(thread, target))}
        assert found == {}
