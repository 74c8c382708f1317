"""The run loop: attempts, budgets, waits, ends."""

from typing import Any

import pytest

from memory.errors import InvalidInput, ProviderError, RunCancelled, Tripwire
from memory.messages.prompt import Text, ToolCall
from memory.processors import (
    Chain,
    CompatRule,
    MemoryStorage,
    MessageHistory,
    ProviderHistoryCompat,
    Retry,
    StreamErrorRetryProcessor,
)
from tests.messages.build import NOW, make_list, message, parts, text, tool, user
from tests.processors.fakes import BAD_ID, ORPHAN_ITEM, Asks, Hooks, Reply, Run, ScriptedModel, failure


def attempts(run: Run, chain: Chain, **options: Any) -> int:
    """How many calls a turn takes before its error surfaces."""
    with pytest.raises(ProviderError):
        run(chain, **options)
    return len(run.model.prompts)


class TestBudget:
    @pytest.mark.parametrize(
        ("chain", "cap", "calls"),
        [
            (Chain(error=[Asks()]), None, 11),
            (Chain(input=[Asks()]), None, 11),
            (Chain(output=[Asks()]), None, 11),
            (Chain(), None, 1),
            (Chain(), 5, 1),
            (Chain(error=[Asks()]), 2, 3),
            (Chain(error=[Asks()]), 0, 1),
            (Chain(error=[StreamErrorRetryProcessor()]), None, 2),
            (Chain(error=[Asks(), StreamErrorRetryProcessor()]), 3, 4),
        ],
    )
    def test_limits_the_total_of_all_processors(self, chain: Chain, cap: Any, calls: int) -> None:
        assert attempts(Run(*[failure()] * 20), chain, max_processor_retries=cap) == calls

    def test_asks_nobody_when_it_is_used_up(self) -> None:
        asks = Asks()
        attempts(Run(*[failure()] * 9), Chain(error=[asks]), max_processor_retries=2)
        assert asks.counts == [0, 1]

    def test_counts_failures_in_a_row_only(self) -> None:
        asks = Asks()
        call = [ToolCall("c1", "f", {})]
        run = Run(failure(), failure(), call, failure(), failure(), "done")
        turn = run(Chain(error=[asks]), max_processor_retries=2, execute_tool=lambda call: "r")
        assert (turn.text, turn.attempt_count, turn.step_count) == ("done", 6, 2)
        assert asks.counts == [0, 1, 0, 1]

    def test_is_counted_per_processor(self) -> None:
        first, second = StreamErrorRetryProcessor(), Asks(id="second")
        run = Run(failure(), failure(), failure())
        run(Chain(error=[first, second]))
        assert second.counts == [0, 1]

    def test_of_the_model_multiplies(self) -> None:
        run = Run(*[failure()] * 20)
        assert attempts(run, Chain(error=[StreamErrorRetryProcessor()]), model_max_retries=2) == 6
        assert attempts(Run(*[failure(400)] * 9), Chain(error=[]), model_max_retries=2) == 1

    def test_leaves_steps_alone(self) -> None:
        asks = [[ToolCall(f"c{i}", "f", {})] for i in range(9)]
        run = Run(failure(), asks[0], failure(), *asks[1:])
        turn = run(Chain(error=[Asks()]), execute_tool=lambda call: "r", max_steps=3)
        assert (turn.step_count, turn.attempt_count, turn.finish_reason) == (3, 5, "tool-calls")


class TestSameBody:
    @pytest.mark.parametrize(
        ("status", "answer", "calls"),
        [
            (400, {"retry": True}, 1),
            (422, {"retry": True}, 1),
            (408, {"retry": True}, 11),
            (409, {"retry": True}, 11),
            (425, {"retry": True}, 11),
            (429, {"retry": True}, 11),
            (503, {"retry": True}, 11),
            (400, Retry(allows_same_body=True), 11),
        ],
    )
    def test_is_not_sent_again_after_a_refusal(self, status: int, answer: Any, calls: int) -> None:
        run = Run(*[failure(status)] * 20)
        assert attempts(run, Chain(error=[Asks(answer)])) == calls
        assert run.decisions == ["retry"] * (calls - 1) + ["give-up"]
        assert run.waits == []

    def test_is_no_reason_to_wait(self) -> None:
        run = Run(failure(400))
        attempts(run, Chain(error=[Asks(Retry(delay_ms=5000))]))
        assert run.waits == []
        assert "the very one that was refused with 400" in run.ledger.attempts[-1].reason

    def test_is_another_one_after_a_repair(self) -> None:
        run = Run(failure(400, BAD_ID))
        rows = [user(), message("a", tool("x.1")), user("u2")]
        run(Chain(error=[ProviderHistoryCompat()]), messages=make_list(("input", rows)))
        assert [
            p["content"][0]["toolCallId"] for prompt in run.model.prompts for p in prompt if p["role"] == "tool"
        ] == ["x.1", "x_1"]


class TestRepairs:
    def test_act_once_each_in_a_run(self) -> None:
        rows = [
            user(),
            message("a", tool("x.1"), {"type": "step-start"}, text("b", providerMetadata={"openai": {"itemId": "m"}})),
            user("u2"),
        ]
        run = Run(failure(400, BAD_ID), failure(400, ORPHAN_ITEM), failure(400, BAD_ID))
        with pytest.raises(ProviderError, match="tool_use"):
            run(Chain(error=[ProviderHistoryCompat()]), messages=make_list(("input", rows)))
        assert run.decisions == ["retry", "retry", "give-up"]

    def test_do_not_come_back_after_a_success(self) -> None:
        asked: list[int] = []
        rule = CompatRule(
            "own",
            error_patterns=["boom"],
            fix=lambda rows: bool(asked.append(1) or rows.append(user(f"n{len(asked)}")) or True),
        )
        run = Run(failure(400, "boom"), [ToolCall("c", "f", {})], failure(400, "boom"))
        with pytest.raises(ProviderError):
            run(Chain(error=[ProviderHistoryCompat(additional_rules=[rule])]), execute_tool=lambda call: "r")
        assert len(asked) == 1

    @pytest.mark.parametrize("read_only", [False, True])
    def test_of_remembered_rows_are_written_back(self, read_only: bool) -> None:
        storage = MemoryStorage()
        storage.create_thread({"id": "th-1", "resourceId": "res-1", "title": "", "metadata": {}, "updatedAt": ""})
        storage.save_messages("th-1", "res-1", [{**message("a", tool("x.1")), "threadId": "th-1"}])
        history = MessageHistory(storage=storage)
        context = {"MastraMemory": {"thread": {"id": "th-1"}, "memoryConfig": {"readOnly": read_only}}}
        run = Run(failure(400, BAD_ID))
        run(Chain(input=[history], output=[history], error=[ProviderHistoryCompat()], request_context=context))
        (row, *_) = storage.load_messages("th-1", None, last=None)
        assert parts(row)[0]["toolInvocation"]["toolCallId"] == ("x.1" if read_only else "x_1")
        assert len(storage.versions) == (0 if read_only else 1)


class TestWaiting:
    def test_happens_after_the_attempt_is_on_record(self) -> None:
        run = Run(failure())
        run(Chain(error=[StreamErrorRetryProcessor(delay_ms=1500)]))
        assert run.waits == [1.5]
        assert run.ledger.events == ["retry", "waited", "answered", "replied"]

    def test_ends_with_the_run_when_it_was_cancelled(self) -> None:
        run = Run(failure(), cancel_in_wait=True)
        with pytest.raises(RunCancelled):
            run(Chain(error=[StreamErrorRetryProcessor(delay_ms=1500)]))
        assert len(run.model.prompts) == 1

    def test_is_left_out_when_the_signal_is_set_already(self) -> None:
        run = Run()
        run.model = ScriptedModel(failure(), before=run.signal.set)
        asks = Asks()
        with pytest.raises(RunCancelled):
            run(Chain(error=[asks]))
        assert (run.waits, asks.counts, run.decisions) == ([], [], ["cancelled"])

    def test_and_calling_do_not_begin_in_a_cancelled_run(self) -> None:
        run = Run()
        run.signal.set()
        with pytest.raises(RunCancelled):
            run(Chain())
        assert run.model.prompts == []


class TestEnds:
    def test_in_the_last_error_when_nothing_more_is_granted(self) -> None:
        run = Run(failure(503, "first"), failure(503, "second"))
        with pytest.raises(ProviderError, match="second"):
            run(Chain(error=[StreamErrorRetryProcessor()]))

    @pytest.mark.parametrize(
        "hook", ["process_input", "process_input_step", "process_llm_request", "process_api_error"]
    )
    def test_where_a_processor_stops_it(self, hook: str) -> None:
        def stop(args: Any) -> Any:
            args.abort("not today", metadata={"k": 1})

        run = Run(failure())
        with pytest.raises(Tripwire) as stopped:
            run(Chain(input=[Hooks("guard", **{hook: stop})]))
        assert (stopped.value.reason, stopped.value.processor_id, stopped.value.metadata) == (
            "not today",
            "guard",
            {"k": 1},
        )
        assert run.decisions == (["stopped"] if hook == "process_api_error" else [])

    def test_with_the_output_so_far_saved(self) -> None:
        storage = MemoryStorage()
        history = MessageHistory(storage=storage)
        run = Run([ToolCall("c", "f", {})], failure(400))
        with pytest.raises(ProviderError):
            run(Chain(input=[history], output=[history]), execute_tool=lambda call: "r")
        assert [row["role"] for row in storage.load_messages("th-1", None, last=None)] == ["user", "assistant"]

    def test_on_record_when_the_next_request_cannot_be_made(self) -> None:
        class Narrow(ScriptedModel):
            def encode(self, result: Any) -> Any:
                if self.prompts:
                    raise ValueError("no room")
                return super().encode(result)

        run = Run(model=Narrow(failure()))
        with pytest.raises(ValueError, match="no room"):
            run(Chain(error=[Asks()]))
        assert run.decisions == ["give-up"]


class TestSteps:
    def test_tell_hooks_what_came_before(self) -> None:
        seen: list[Any] = []
        asks: list[str] = []
        own = Hooks(
            process_input_step=lambda args: seen.append((args.step_number, len(args.steps))),
            process_api_error=lambda args: asks.append(args.message_id) or {"retry": True},
            process_output_result=lambda args: seen.append(len(args.result.steps)),
        )
        run = Run([ToolCall("c", "f", {})], failure(), "done")
        run(Chain(input=[own], output=[own]), execute_tool=lambda call: {"v": 1})
        assert seen == [(0, 0), (1, 1), (1, 1), 2]
        assert asks[0].startswith("msg_")

    def test_stand_in_the_thread_as_one_answer(self) -> None:
        run = Run([ToolCall("c", "f", {})], "done")
        run(Chain(), execute_tool=lambda call: "r")
        answer = run.messages.messages[-1]
        assert [p["type"] for p in parts(answer)] == ["tool-invocation", "step-start", "text"]
        assert answer["content"]["metadata"] == {"provider": "openai", "protocol": "openai-chat", "modelId": "gpt-5"}

    def test_end_with_calls_for_the_caller(self) -> None:
        turn = Run([ToolCall("c", "f", {})])(Chain())
        assert ([c.id for c in turn.tool_calls], turn.finish_reason, turn.usage) == (
            ["c"],
            "tool-calls",
            {"output_tokens": 1},
        )

    def test_take_a_reply_a_processor_kept(self) -> None:
        run = Run()
        turn = run(Chain(input=[Hooks(process_llm_request=lambda args: {"response": Reply((Text("kept"),))})]))
        assert (turn.text, run.model.prompts, turn.attempt_count) == ("kept", [], 0)

    def test_may_go_to_another_model(self) -> None:
        class Flexible(ScriptedModel):
            def for_step(self, settings: Any) -> Any:
                return ScriptedModel(f"from {settings.model}", ref=settings.model)

        own = Hooks(process_input_step=lambda args: {"model": "groq/x"})
        assert Run(model=Flexible())(Chain(input=[own])).text == "from groq/x"
        with pytest.raises(InvalidInput, match="does not allow"):
            Run()(Chain(input=[own]))

    def test_happen_at_the_callers_time(self) -> None:
        run = Run()
        run(Chain())
        assert run.ledger.attempts[0].started_at == NOW
