"""ProviderHistoryCompat with the reference's nine rules, repairs, and rules of one's own."""

import re
from typing import Any

import pytest

from memory.errors import InvalidOption, ProviderError, Tripwire
from memory.messages.names import ModelRef
from memory.messages.prompt import prompt_to_json
from memory.processors import CompatRule, ProcessAPIErrorArgs, ProcessLLMRequestArgs, ProviderHistoryCompat, Switches
from memory.processors.compat.reference import matches
from tests.messages.build import make_list, message, parts, text, thought, tool, user
from tests.processors.fakes import BAD_ID, ORPHAN_ITEM, failure

CLAUDE = "anthropic/claude-opus-4-6"
SIGNED = {"anthropic": {"signature": "sg"}}


def assistant(*content: Any, **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(content), **fields}


def reasoning(value: str = "hm", **options: Any) -> dict[str, Any]:
    return {"type": "reasoning", "text": value, **({"providerOptions": options} if options else {})}


def hosted(call_id: str, namespace: str | None, **fields: Any) -> dict[str, Any]:
    options = {"providerOptions": {namespace: {}}} if namespace else {}
    return {
        "type": "tool-call",
        "toolCallId": call_id,
        "toolName": "s",
        "input": {},
        "providerExecuted": True,
        **options,
        **fields,
    }


def result(call_id: str) -> dict[str, Any]:
    return {"type": "tool-result", "toolCallId": call_id, "toolName": "s", "output": {"type": "text", "value": "r"}}


ASK = {"role": "user", "content": [text("q")]}


def rewritten(prompt: list[Any], model: Any, *, rows: Any = (), **args: Any) -> list[Any] | None:
    """What the hook with the reference's rules gives, None for nothing; the prompt passed in stays as it was."""
    before = repr(prompt)
    answer = ProviderHistoryCompat(rules="reference").process_llm_request(
        ProcessLLMRequestArgs(prompt=prompt, model=model, message_list=make_list(("memory", list(rows))), **args)
    )
    assert repr(prompt) == before
    return answer.prompt if answer else None


class TestModels:
    @pytest.mark.parametrize(
        ("model", "expected"),
        [
            ("anthropic/x", True),
            ("Anthropic:x", True),
            ("anthropic-foo/x", False),
            ("anthropic", False),
            (None, False),
            (len, False),
            ({"provider": "anthropic"}, True),
            ({"provider": "anthropic.messages"}, True),
            ({"provider": "anthropic-vertex"}, True),
            ({"provider": "anthropics"}, False),
            ({"provider": "openrouter", "modelId": "anthropic/x"}, True),
            ({"provider": "openai", "modelId": "gpt"}, False),
            ([None, {"model": "openai/x"}, {"model": {"provider": "anthropic"}}], True),
            (["openai/x"], False),
            ([], False),
            (ModelRef("anthropic", "x"), True),
            (ModelRef("openrouter", "anthropic/x"), True),
            (ModelRef("", "anthropic"), False),
        ],
    )
    def test_are_known_by_their_prefix(self, model: Any, expected: bool) -> None:
        assert matches(model, "anthropic") is expected

    @pytest.mark.parametrize(
        ("model", "is_azure"),
        [
            ("azure/x", True),
            ("azure-openai:x", True),
            ("azurex/y", False),
            ({"provider": "azure.chat"}, True),
            ({"provider": "azure-openai"}, True),
            ({"provider": "azure.a.b"}, False),
            (["openai/x", {"model": "azure/x"}], True),
            (ModelRef("azure", "x"), True),
            (ModelRef("openrouter", "azure/x"), True),
            (None, False),
            (len, False),
        ],
    )
    def test_on_azure_get_another_reminder_tag(self, model: Any, is_azure: bool) -> None:
        tags = '<system-reminder a="1">x</system-reminder><system-reminder/><system-reminderX>'
        prompt = [{"role": "system", "content": tags}, {"role": "user", "content": [text(tags)]}, assistant(text(tags))]
        new = '<memory-context a="1">x</memory-context><memory-context/><system-reminderX>'
        expected = [{"role": "system", "content": new}, {"role": "user", "content": [text(new)]}, prompt[2]]
        assert rewritten(prompt, model) == (expected if is_azure else None)


class TestHostedTools:
    @pytest.mark.parametrize(
        ("model", "namespace", "is_kept"),
        [
            (CLAUDE, "openai", False),
            (CLAUDE, "azure", False),
            (CLAUDE, "google", False),
            (CLAUDE, "anthropic", True),
            ("azure/gpt", "openai", True),
            ("vertex/gemini", "google", True),
            (CLAUDE, None, True),
            ("groq/x", "openai", True),
        ],
    )
    def test_of_another_family_go_in_pairs(self, model: Any, namespace: Any, is_kept: bool) -> None:
        client = {**hosted("own", namespace), "providerExecuted": False}
        prompt = [
            ASK,
            assistant(hosted("a", namespace), result("a"), text("x")),
            assistant(hosted("b", namespace)),
            {"role": "tool", "content": [result("b")]},
            assistant(client),
        ]
        expected = None if is_kept else [ASK, assistant(text("x")), assistant(client)]
        assert rewritten(prompt, model) == expected


class TestReasoning:
    @pytest.mark.parametrize(
        ("model", "protocol", "is_dropped"),
        [
            ("cerebras/x", "", True),
            ({"provider": "cerebras.chat", "modelId": "x"}, "", True),
            ("groq/x", "", False),
            ({"provider": "bedrock-mantle.chat", "modelId": "openai.gpt-oss-120b"}, "", True),
            ([None, {"provider": "bedrock-mantle.chat", "modelId": "openai.gpt-oss"}], "", True),
            ({"provider": "bedrock-mantle.chat", "modelId": "anthropic.x"}, "", False),
            ({"provider": "bedrock-mantle", "modelId": "openai.gpt-oss"}, "", False),
            ("bedrock-mantle.chat/openai.gpt-oss", "", False),
            (ModelRef("bedrock", "openai.gpt-oss-20b"), "openai-chat", True),
            (ModelRef("bedrock", "openai.gpt-oss-20b"), "bedrock-converse", False),
        ],
    )
    def test_goes_where_the_target_takes_none(self, model: Any, protocol: str, is_dropped: bool) -> None:
        prompt = [
            ASK,
            assistant(reasoning(**SIGNED), text("a"), reasoning(), hosted("c", None)),
            assistant(reasoning()),
            assistant(),
        ]
        expected = [ASK, assistant(text("a"), hosted("c", None)), assistant()]
        assert rewritten(prompt, model, protocol=protocol) == (expected if is_dropped else None)

    @pytest.mark.parametrize(
        ("part", "is_kept"),
        [
            (reasoning(**SIGNED), True),
            (reasoning(anthropic={}), True),
            (reasoning(), False),
            (reasoning(mastra={"createdAt": 1}), False),
            (reasoning(openai={"itemId": "rs"}), False),
            ({**reasoning(), "providerMetadata": {"anthropic": {}}}, True),
            ({**reasoning(mastra={}), "providerMetadata": {"anthropic": {}}}, True),
            (reasoning(**SIGNED, mastra={"provider": "minimax"}), False),
            (reasoning(**SIGNED, mastra={"provider": "vertex"}), True),
        ],
    )
    def test_of_others_goes_for_claude(self, part: Any, is_kept: bool) -> None:
        prompt = [ASK, assistant(part, text("a")), ASK]
        assert rewritten(prompt, CLAUDE) == (None if is_kept else [ASK, assistant(text("a")), ASK])
        assert rewritten(prompt, "groq/x") is None

    def test_is_judged_by_the_stamp_of_its_stored_turn(self) -> None:
        row = message("a1", thought(providerMetadata=SIGNED), text("a"), metadata={"provider": "minimax"})
        prompt = [ASK, assistant(reasoning(**SIGNED), text("a"), id="a1"), ASK]
        made = rewritten(prompt, CLAUDE, rows=[row])
        assert made is not None
        assert made[1]["content"] == [text("a")]

    @pytest.mark.parametrize(
        ("tail", "expected"),
        [
            ([assistant(reasoning(), reasoning(**SIGNED), text("z"))], None),
            (
                [
                    assistant(reasoning(), reasoning(**SIGNED), hosted("c", None)),
                    {"role": "tool", "content": [result("c")]},
                ],
                None,
            ),
            ([assistant(reasoning(), text("z"))], [assistant(text("z"))]),
            ([assistant(reasoning(), reasoning(**SIGNED)), ASK], [assistant(reasoning(**SIGNED)), ASK]),
            ([assistant(reasoning())], []),
        ],
    )
    def test_of_the_open_turn_stays_when_some_of_it_is_claudes(self, tail: Any, expected: Any) -> None:
        prompt = [ASK, assistant(reasoning(), text("old")), ASK, *tail]
        rest = tail if expected is None else expected
        assert rewritten(prompt, CLAUDE) == [ASK, assistant(text("old")), ASK, *rest]

    @pytest.mark.parametrize(
        ("part", "stamp", "is_kept"),
        [
            (reasoning("", **SIGNED), None, False),
            (reasoning("x", **SIGNED), None, True),
            (reasoning("", anthropic={"signature": ""}), None, True),
            (reasoning("", anthropic={"redactedData": "x"}), None, True),
            (reasoning("", **SIGNED), {"provider": "anthropic", "modelId": "claude-opus-4-6"}, True),
            (reasoning("", **SIGNED), {"provider": "bedrock", "modelId": "claude-opus-4-6"}, True),
            (reasoning("", **SIGNED), {"provider": "anthropic", "modelId": "claude-3"}, False),
        ],
    )
    def test_that_is_signed_and_empty_goes_unless_this_model_wrote_it(
        self, part: Any, stamp: Any, is_kept: bool
    ) -> None:
        rows = [message("a1", thought(), metadata=stamp)] if stamp else []
        prompt = [ASK, assistant(part, text("a"), id="a1"), ASK]
        made = rewritten(prompt, CLAUDE, rows=rows)
        assert made == (None if is_kept else [ASK, assistant(text("a"), id="a1"), ASK])

    @pytest.mark.parametrize(
        ("provider", "model", "is_kept"),
        [
            ("minimax", ModelRef("anthropic", "x"), False),
            ("anthropic.messages", ModelRef("anthropic", "x"), True),
            ("anthropic", {"provider": "minimax"}, False),
            ("minimax", [None, {"model": {"provider": "anthropic.x"}}], False),
            ("minimax", CLAUDE, True),
            (None, ModelRef("anthropic", "x"), True),
        ],
    )
    def test_signed_by_another_vendor_goes_even_last(self, provider: Any, model: Any, is_kept: bool) -> None:
        own = thought(providerMetadata={"anthropic": {"signature": "a"}})
        sealed = thought(providerMetadata={"anthropic": {"redactedData": "b"}})
        row = message("r", own, sealed, metadata={"provider": provider} if provider else {})
        prompt = [ASK, assistant(reasoning(anthropic={"signature": "a"}), reasoning(anthropic={"redactedData": "b"}))]
        assert rewritten(prompt, model, rows=[row]) == (None if is_kept else [ASK])
        assert rewritten(prompt, model) is None

    def test_signed_by_another_vendor_is_told_by_the_parts_own_stamp(self) -> None:
        own = thought(providerMetadata={"anthropic": {"signature": "a"}, "mastra": {"provider": "minimax"}})
        row = message("r", own, metadata={"provider": "anthropic"})
        prompt = [ASK, assistant(reasoning(anthropic={"signature": "a"}), text("z"))]
        assert rewritten(prompt, ModelRef("anthropic", "x"), rows=[row]) == [ASK, assistant(text("z"))]


def repaired(error: Any, *rows: Any, retry_count: int = 0, rules: Any = (), **args: Any) -> tuple[Any, list[Any]]:
    messages = make_list(("memory", list(rows)))
    answer = ProviderHistoryCompat(additional_rules=rules, rules="reference").process_api_error(
        ProcessAPIErrorArgs(
            error=error, messages=messages.messages, message_list=messages, retry_count=retry_count, **args
        )
    )
    return answer, messages.messages


def wrapped(error: Any) -> Exception:
    outer = RuntimeError("outer")
    outer.__cause__ = error
    return outer


class TestToolIds:
    @pytest.mark.parametrize(
        ("error", "is_known"),
        [
            (failure(400, BAD_ID), True),
            (Exception("Tool_Call_ID is INVALID"), True),
            (failure(400, "bad", response_body=f'{{"error": "{BAD_ID}"}}'), True),
            (wrapped(failure(400, BAD_ID)), True),
            ({"message": BAD_ID}, False),
            (BAD_ID, False),
            (failure(429, "rate limit"), False),
            (Exception("other"), False),
        ],
    )
    def test_are_repaired_after_their_error_only(self, error: Any, is_known: bool) -> None:
        answer, (row,) = repaired(error, message("a", tool("call:abc.123")))
        assert (answer is not None) is is_known
        assert row["content"]["parts"][0]["toolInvocation"]["toolCallId"] == (
            "call_abc_123" if is_known else "call:abc.123"
        )

    def test_that_fit_are_left_alone(self) -> None:
        answer, rows = repaired(failure(400, BAD_ID), message("a", tool("fine-1")))
        assert (answer, parts(rows[0])) == (None, [tool("fine-1")])

    def test_stay_distinct_and_valid_ones_stay(self) -> None:
        rows = [message("a", tool("a.1"), tool("a:1")), message("b", tool("a_1"), tool("a_1_2"), tool("a.1"))]
        _, made = repaired(failure(400, BAD_ID), *rows)
        ids = [p["toolInvocation"]["toolCallId"] for m in made for p in parts(m)]
        assert ids == ["a_1_3", "a_1_4", "a_1", "a_1_2", "a_1_3"]

    def test_are_renamed_everywhere_they_stand(self) -> None:
        waiting = {"x.1": {"toolCallId": "x.1"}}
        row = message(
            "a",
            {"type": "data-tool-call-approval", "data": {"toolCallId": "x.1"}},
            toolInvocations=[tool("x.1")["toolInvocation"]],
            metadata={"pendingToolApprovals": waiting, "suspendedTools": {"f": {"toolCallId": "x.1"}}},
        )
        old = {"id": "b", "role": "assistant", "content": {"toolInvocations": [tool("x.1")["toolInvocation"]]}}
        _, made = repaired(failure(400, BAD_ID), row, old)
        assert "x.1" not in repr(made)
        assert made[0]["content"]["metadata"]["pendingToolApprovals"] == {"x_1": {"toolCallId": "x_1"}}

    def test_are_repaired_at_the_first_attempt_only(self) -> None:
        row = message("a", tool("x.1"))
        assert repaired(failure(400, BAD_ID), row, retry_count=1)[0] is None
        assert repaired(failure(400, BAD_ID), row, retry_count=1, rule_counts={})[0] is not None
        assert repaired(failure(400, BAD_ID), row, rule_counts={"anthropic-tool-id-format": 1})[0] is None


ITEM = {"providerMetadata": {"openai": {"itemId": "m", "resultItemId": "n", "k": 1}, "azure": {"itemId": "m"}}}


class TestOrphanItems:
    @pytest.mark.parametrize(
        ("rows", "is_stripped"),
        [
            ([message("a", text("x", **ITEM))], True),
            ([message("a", thought(), text("x", **ITEM))], False),
            ([message("r", thought()), message("a", text("x", **ITEM))], False),
            ([message("r", thought(), text("y")), message("a", text("x", **ITEM))], True),
            ([user(), message("a", text("x", **ITEM))], True),
            ([message("a", text("x"))], False),
        ],
    )
    def test_lose_their_ids_and_nothing_else(self, rows: Any, is_stripped: bool) -> None:
        answer, made = repaired(failure(400, ORPHAN_ITEM), *rows)
        assert (answer is not None) is is_stripped
        if is_stripped:
            assert made[-1]["content"]["parts"][-1]["providerMetadata"] == {"openai": {"k": 1}, "azure": {}}


class TestOwnRules:
    @pytest.mark.parametrize(
        ("fields", "option"),
        [
            ({"name": ""}, "name"),
            ({"name": None}, "name"),
            ({"fix": lambda m: True}, "error_patterns"),
            ({"fix": lambda m: True, "error_patterns": "x"}, "error_patterns"),
            ({"error_patterns": ["("]}, "error_patterns"),
            ({"fix": 5, "error_patterns": ["x"]}, "fix"),
            ({"apply_to_prompt": 5}, "apply_to_prompt"),
        ],
    )
    def test_are_checked(self, fields: Any, option: str) -> None:
        with pytest.raises(InvalidOption, match=option):
            CompatRule(**{"name": "own", **fields})

    @pytest.mark.parametrize("rules", [["x"], None, CompatRule("own")])
    def test_come_as_a_list(self, rules: Any) -> None:
        with pytest.raises(InvalidOption, match="additional_rules"):
            ProviderHistoryCompat(additional_rules=rules)

    def test_repair_a_copy_that_counts_only_on_true(self) -> None:
        def fix(answer: Any) -> Any:
            def change(messages: list[Any]) -> bool:
                messages[0]["content"]["parts"] = []
                if answer is None:
                    raise RuntimeError("broken")
                return bool(answer)

            return CompatRule("own", error_patterns=[re.compile("boom")], fix=change)

        for answer, is_taken in [(True, True), (False, False), (None, False)]:
            asked, (row,) = repaired(Exception("boom"), message("a", text()), rules=[fix(answer)])
            assert (asked is not None) is is_taken
            assert parts(row) == ([] if is_taken else [text()])

    def test_may_take_out_and_add_messages_for_the_run(self) -> None:
        def fix(messages: list[Any]) -> bool:
            del messages[0]
            messages.append(user("new"))
            return True

        rule = CompatRule("own", error_patterns=["boom"], fix=fix)
        asked, rows = repaired(Exception("boom"), user("old"), message("a", text()), rules=[rule])
        assert [m["id"] for m in rows] == ["a", "new"]
        assert asked.repair.messages == []

    def test_try_the_next_one_when_one_changed_nothing(self) -> None:
        asked: list[str] = []
        rules = [
            CompatRule(name, error_patterns=["boom"], fix=lambda m, n=name: bool(asked.append(n) or n == "b"))
            for name in ("a", "b", "c")
        ]
        answer, _ = repaired(Exception("boom"), user(), rules=rules)
        assert (answer.rule, asked) == ("b", ["a", "b"])

    def test_see_the_prompt_behind_the_built_in_ones(self) -> None:
        seen: list[Any] = []

        def apply(prompt: Any, *, model: Any, messages: Any) -> Any:
            seen.append((prompt, str(model), [m["id"] for m in messages]))
            return [*prompt, ASK]

        processor = ProviderHistoryCompat(
            rules="reference", additional_rules=[CompatRule("own", apply_to_prompt=apply)]
        )
        args = ProcessLLMRequestArgs(
            prompt=[ASK, assistant(reasoning(), text("a"))],
            model="cerebras:x",
            message_list=make_list(("memory", user("m"))),
        )
        answer = processor.process_llm_request(args)
        assert answer is not None
        assert seen == [([ASK, assistant(text("a"))], "cerebras/x", ["m"])]
        assert answer.prompt == [ASK, assistant(text("a")), ASK]
        assert [change.rule for change in answer.changes] == ["cerebras-reasoning-content", "own"]

    def test_get_the_kind_of_prompt_the_hook_got(self) -> None:
        rule = CompatRule("own", apply_to_prompt=lambda prompt, **_: prompt.with_messages([]))
        prompt = make_list(("memory", user())).to_prompt()
        answer = ProviderHistoryCompat(additional_rules=[rule]).process_llm_request(
            ProcessLLMRequestArgs(prompt=prompt)
        )
        assert answer is not None
        assert prompt_to_json(answer.prompt) == []

    def test_that_break_are_passed_over_but_may_stop_the_run(self) -> None:
        def broken(error: Exception) -> Any:
            def apply(*_: Any, **__: Any) -> Any:
                raise error

            processor = ProviderHistoryCompat(additional_rules=[CompatRule("own", apply_to_prompt=apply)])
            return processor.process_llm_request(ProcessLLMRequestArgs(prompt=[ASK]))

        assert broken(RuntimeError("x")) is None
        with pytest.raises(Tripwire):
            broken(Tripwire("enough"))


class TestSwitches:
    @pytest.mark.parametrize(("state", "changes", "findings"), [("on", 1, 0), ("report", 0, 1), ("off", 0, 0)])
    @pytest.mark.parametrize("rules", ["reference", "catalogue"])
    def test_turn_a_rule_off_or_let_it_only_report(self, rules: Any, state: str, changes: int, findings: int) -> None:
        args = ProcessLLMRequestArgs(
            prompt=[ASK, assistant(reasoning(), text("a")), ASK],
            model=ModelRef("cerebras", "x"),
            protocol="openai-chat",
            switches=Switches({"cerebras-reasoning-content": state}),
        )
        answer = ProviderHistoryCompat(rules=rules).process_llm_request(args)
        assert (len(answer.changes) if answer else 0, len(answer.findings) if answer else 0) == (changes, findings)

    @pytest.mark.parametrize("state", ["off", "report"])
    def test_hold_a_repair_back(self, state: str) -> None:
        switches = Switches({"anthropic-tool-id-format": state})
        assert repaired(failure(400, BAD_ID), message("a", tool("x.1")), switches=switches)[0] is None


def test_names_are_the_references() -> None:
    assert (ProviderHistoryCompat.id, ProviderHistoryCompat.name) == (
        "provider-history-compat",
        "Provider History Compat",
    )
    assert ProviderError("x", status=503).is_retryable
