"""What holds for every thread, every target and every error."""

import copy
import itertools
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from memory.messages.convert import to_prompt
from memory.messages.from_prompt import from_prompt
from memory.messages.lists import MessageList
from memory.messages.prompt import Prompt, Text, ToolCall, ToolResult, prompt_from_json, prompt_to_json
from memory.messages.stored import tool_invocations
from memory.processors import (
    Chain,
    MemoryStorage,
    MessageHistory,
    ProcessAPIErrorArgs,
    ProcessLLMRequestArgs,
    ProviderHistoryCompat,
    StreamErrorRetryProcessor,
    Switches,
    ToolCallFilter,
    TurnEnd,
)
from memory.processors.compat.passes import CATALOGUE, REPAIRS
from memory.processors.compat.passes.facts import Facts, facts_of
from memory.processors.compat.passes.roles import CONTINUE
from memory.processors.compat.processor import run_steps
from memory.profiles import PROFILES, REFERENCE, UNKNOWN
from memory.profiles.profile import Profile
from tests import strategies

TARGETS = [*PROFILES, UNKNOWN, REFERENCE]
few = settings(max_examples=50)


def passed(prompt: Prompt, profile: Profile) -> Prompt:
    steps = REPAIRS if profile is REFERENCE else CATALOGUE
    return run_steps(steps, prompt, profile, Switches())[0]


def said(prompt: Prompt) -> list[Any]:
    """Roles and parts one by one: neighbours of one role are joined for some targets.

    Without what only makes the user speak last: it is in one request, not in the next.
    """
    parts = [(message.role, part) for message in prompt.messages for part in message.parts]
    return parts[:-1] if parts[-1:] == [("user", Text(CONTINUE))] else parts


def unpaired(prompt: Prompt) -> list[str]:
    """Client calls without a result behind their turn, and results without a call before them."""
    found = []
    messages = list(prompt.messages)
    at = 0
    while at < len(messages):
        turn = list(itertools.takewhile(lambda m: m.role == "assistant", messages[at:]))
        behind = list(itertools.takewhile(lambda m: m.role == "tool", messages[at + len(turn) :]))
        calls = [p.id for m in turn for p in m.parts if isinstance(p, ToolCall) and not p.provider_executed]
        hosted = {p.id for m in turn for p in m.parts if isinstance(p, ToolCall) and p.provider_executed}
        inside = [p.call_id for m in turn for p in m.parts if isinstance(p, ToolResult) and p.call_id not in hosted]
        results = [p.call_id for m in behind for p in m.parts if isinstance(p, ToolResult)] + inside
        for call_id in set(calls) | set(results):
            asked, given_count = calls.count(call_id), results.count(call_id)
            if asked > given_count or (asked < given_count and call_id not in hosted):
                found.append(call_id)
        at += max(1, len(turn) + len(behind))
    return found


class TestPasses:
    @few
    @given(thread=strategies.threads())
    def test_leave_no_call_unpaired(self, thread: Any) -> None:
        prompt = to_prompt(thread)
        # The reference pairs by id alone, so a second result of an answered call stays.
        found = {p.id: unpaired(passed(prompt, p)) for p in TARGETS if p.unpaired not in ("accept", "drop")}
        assert {target: ids for target, ids in found.items() if ids} == {}

    @few
    @given(thread=strategies.threads())
    def test_leave_no_message_empty(self, thread: Any) -> None:
        prompt = to_prompt(thread)
        found = {p.id: [m for m in passed(prompt, p).messages if not m.content and m.role != "system"] for p in TARGETS}
        assert {target: messages for target, messages in found.items() if messages} == {}

    @few
    @given(thread=strategies.threads())
    def test_change_nothing_on_their_own_result(self, thread: Any) -> None:
        prompt = to_prompt(thread)
        results = [(p, passed(prompt, p)) for p in TARGETS]
        assert [p.id for p, once in results if passed(once, p) is not once] == []

    @few
    @given(thread=strategies.threads(tools=strategies.settled_tools))
    def test_keep_the_prefix_of_a_growing_thread(self, thread: Any) -> None:
        faithful = [to_prompt(thread[:count]) for count in range(len(thread) + 1)]
        # A request that ends with the assistant, or with one of two neighbours to be joined, is no turn's end.
        asked = [prompt for prompt in faithful if not prompt.messages or prompt.messages[-1].role != "assistant"]
        for profile in TARGETS:
            # How many images there are changes what is sent of the first.
            profile = replace(profile, images=None) if profile.images else profile
            prompts = asked if profile.last_user or profile.trims_last_text else faithful
            for shorter, longer in itertools.pairwise(said(passed(prompt, profile)) for prompt in prompts):
                assert longer[: len(shorter)] == shorter, profile.id

    @few
    @given(thread=strategies.threads())
    def test_are_preceded_by_facts_that_stay_upper_bounds(self, thread: Any) -> None:
        faithful = to_prompt(thread)
        for profile in TARGETS:
            prompt, facts = faithful, facts_of(faithful)
            for step in CATALOGUE:
                if step.may_act(profile, facts):
                    before = prompt
                    prompt, _ = step.run(prompt, profile, facts, "rule")
                    facts.follow(before, prompt, keeps_places=step.keeps_places)
                if step.fault not in ("tool-id", "tool-name"):
                    assert within(facts_of(prompt), facts, names=step.number < 5), (profile.id, step.fault)

    @few
    @given(thread=strategies.threads())
    def test_of_the_reference_change_nothing_twice(self, thread: Any) -> None:
        for model in ("anthropic/claude", "cerebras/x", {"provider": "minimax", "modelId": "m"}, "azure/gpt"):
            rows = MessageList()
            rows.add(copy.deepcopy(thread), "memory")
            compat, prompt = ProviderHistoryCompat(rules="reference"), to_prompt(thread)
            first = compat.process_llm_request(ProcessLLMRequestArgs(prompt=prompt, model=model, message_list=rows))
            if first is not None:
                args = ProcessLLMRequestArgs(prompt=first.prompt, model=model, message_list=rows)
                assert compat.process_llm_request(args) is None


def within(fresh: Facts, carried: Facts, *, names: bool) -> bool:
    flags = ("has_reasoning", "has_blank_text", "has_pending", "has_unpaired")
    known = not names or (
        set(fresh.tool_ids) <= set(carried.tool_ids) and set(fresh.tool_names) <= set(carried.tool_names)
    )
    for places in ("reasoning_at", "tools_at", "options_at"):
        if (at := getattr(carried, places)) is not None and not set(getattr(fresh, places)) <= set(at):
            return False
    return known and all(getattr(carried, flag) or not getattr(fresh, flag) for flag in flags)


class TestStorage:
    @few
    @given(
        thread=strategies.threads(),
        exclude=st.none() | st.lists(st.sampled_from(strategies.TOOL_NAMES), max_size=2),
        steps=st.none() | st.integers(0, 2),
        preserve=st.booleans(),
    )
    def test_is_never_changed_by_a_filter(self, thread: Any, exclude: Any, steps: Any, preserve: bool) -> None:
        storage = MemoryStorage()
        storage.create_thread({"id": "t", "resourceId": "r", "title": "", "metadata": {}, "updatedAt": ""})
        storage.save_messages("t", "r", [{**m, "threadId": "t", "resourceId": "r"} for m in thread])
        before = copy.deepcopy(storage.load_messages("t", "r", last=None))
        tools = ToolCallFilter(exclude=exclude, filter_after_tool_steps=steps, preserve_model_output=preserve)
        history = MessageHistory(storage=storage)
        chain = Chain(input=[history, tools, ProviderHistoryCompat()], output=[history])
        messages = MessageList(thread_id="t", resource_id="r")
        messages.add("next", "input")
        chain.process_input(messages)
        prompt = chain.process_llm_request(messages.to_prompt(), messages, model="anthropic/claude").prompt
        chain.process_output_result(messages, TurnEnd())
        assert storage.load_messages("t", "r", last=None)[:-1] == before
        if exclude is None and steps is None:
            assert not any(isinstance(p, ToolCall) for m in prompt.messages for p in m.parts)

    @few
    @given(thread=strategies.threads())
    def test_is_never_changed_by_conversion(self, thread: Any) -> None:
        before = copy.deepcopy(thread)
        for profile in TARGETS:
            passed(to_prompt(thread), profile)
        assert thread == before


class TestMerging:
    @few
    @given(thread=strategies.threads(), order=st.randoms(use_true_random=False))
    def test_by_id_does_not_depend_on_the_order_of_arrival(self, thread: Any, order: Any) -> None:
        """Remembered rows keep their order whatever of them the caller had sent before."""
        live = [m for m in thread if order.random() < 0.5]
        messages = MessageList()
        for value in order.sample(live, len(live)):
            messages.add(copy.deepcopy(value), "input")
        newest = {"id": "new", "role": "user", "content": {"format": 2, "parts": [{"type": "text", "text": "q"}]}}
        messages.add(newest, "input")
        for _ in range(2):
            messages.add(copy.deepcopy(thread), "memory")
        found = [m["id"] for m in messages.messages]
        rest = [m["id"] for m in thread if m["id"] in set(found)]
        assert found == [*rest, "new"]

    @few
    @given(
        outcomes=st.lists(strategies.tool_parts(may_be_alone=False), max_size=5),
        order=st.randoms(use_true_random=False),
    )
    def test_moves_calls_forward_only(self, outcomes: Any, order: Any) -> None:
        ranks = {"call": 1, "approval-requested": 2, "approval-responded": 3}
        messages = MessageList()
        best: dict[str, int] = {}
        for number, part in enumerate(outcomes):
            invocation = part["toolInvocation"]
            messages.add(
                {"id": f"a{number}", "role": "assistant", "content": {"format": 2, "parts": [part]}}, "response"
            )
            rank = ranks.get(invocation["state"], 4)
            best[invocation["toolCallId"]] = max(best.get(invocation["toolCallId"], 0), rank)
        found = {
            i["toolCallId"]: ranks.get(i["state"], 4) for m in messages.messages for i in tool_invocations(m["content"])
        }
        assert found == best


class TestRoundTrip:
    @few
    @given(thread=strategies.threads())
    def test_stored_and_converted_again_a_prompt_is_the_same(self, thread: Any) -> None:
        prompt = to_prompt(from_prompt(to_prompt(thread)))
        again = to_prompt(from_prompt(prompt))
        assert prompt_to_json(again) == prompt_to_json(prompt)

    @few
    @given(thread=strategies.threads())
    def test_through_json_a_prompt_is_the_same(self, thread: Any) -> None:
        given_json = prompt_to_json(to_prompt(thread))
        assert prompt_to_json(prompt_from_json(given_json)) == given_json


class TestRetries:
    @settings(max_examples=200)
    @given(
        error=strategies.error_graphs(),
        unknown=st.booleans(),
        retries=st.integers(0, 3),
        count=st.integers(0, 4),
    )
    def test_are_decided_for_any_error(self, error: Any, unknown: bool, retries: int, count: int) -> None:
        processor = StreamErrorRetryProcessor(retry_unknown_errors=unknown, max_retries=retries)
        args = ProcessAPIErrorArgs(error=error, retry_count=count)
        answer = processor.process_api_error(args)
        assert answer is None or count < retries
        ProviderHistoryCompat().process_api_error(args)
        if unknown and count < retries:
            assert answer is not None


def test_texts_are_only_joined_within_a_message() -> None:
    rows = [{"id": i, "role": "user", "content": {"format": 2, "parts": [{"type": "text", "text": i}]}} for i in "ab"]
    assert [m.parts for m in to_prompt(rows).messages] == [(Text("a", None, 0),), (Text("b", None, 0),)]
