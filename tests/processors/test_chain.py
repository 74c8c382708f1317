"""The three lists of an agent: who is asked when, and what becomes of the answers."""

from typing import Any

import pytest

from memory.errors import ExternalMessageList, Tripwire
from memory.messages.prompt import Prompt, Text, prompt_to_json
from memory.processors import Chain, MessageList, PromptResult, Retry, StreamErrorRetryProcessor, TurnEnd
from memory.processors.chain import StepSettings, short_form
from tests.messages.build import ids, make_list, message, parts, text, user
from tests.processors.fakes import Asks, Hooks, failure


def after_input(answer: Any, hook: str = "process_input") -> tuple[MessageList, Chain]:
    """The list [m1 remembered, u1 input] after one hook; `answer` gets the arguments of the hook."""
    messages = make_list(("memory", message("m1", text("a"))), ("input", user("u1")))
    chain = Chain(input=[Hooks(**{hook: answer})])
    if hook == "process_input":
        chain.process_input(messages)
    else:
        chain.process_input_step(messages, StepSettings(), step_number=0)
    return messages, chain


class TestArrays:
    @pytest.mark.parametrize("hook", ["process_input", "process_input_step"])
    @pytest.mark.parametrize(
        ("answer", "expected"),
        [
            (lambda args: None, ["m1", "u1"]),
            (lambda args: args.message_list, ["m1", "u1"]),
            (lambda args: args.messages, ["m1", "u1"]),
            (lambda args: args.message_list.messages, ["m1", "u1"]),
            (lambda args: [m for m in args.message_list.messages if m["id"] != "m1"], ["u1"]),
            (lambda args: [], []),
            (lambda args: {"messages": args.message_list.messages[:1]}, ["m1"]),
            (lambda args: {"messageList": args.message_list}, ["m1", "u1"]),
            (lambda args: {}, ["m1", "u1"]),
        ],
    )
    def test_stand_for_everything_the_processor_could_see(self, hook: str, answer: Any, expected: Any) -> None:
        assert ids(after_input(answer, hook)[0]) == expected

    def test_changed_in_place_stand_for_what_they_held(self) -> None:
        def drop(args: Any) -> Any:
            args.messages.clear()
            return args.messages

        assert ids(after_input(drop)[0]) == ["m1"]

    def test_keep_tags_and_give_new_messages_the_input_tag(self) -> None:
        messages, _ = after_input(lambda args: [*args.message_list.messages, user("n")])
        assert [messages.source_of(i) for i in ids(messages)] == ["memory", "input", "input"]

    def test_of_output_hooks_add_to_the_output(self) -> None:
        messages = make_list(("input", user("u1")))
        hooks = Hooks(process_output_result=lambda args: [*args.messages, message("n", text())])
        Chain(output=[hooks]).process_output_result(messages, TurnEnd())
        assert messages.source_of("n") == "response"

    def test_may_not_be_another_list(self) -> None:
        with pytest.raises(ExternalMessageList):
            after_input(lambda args: MessageList())

    @pytest.mark.parametrize("texts", [["b"], [{"role": "system", "content": "b"}]])
    @pytest.mark.parametrize("key", ["systemMessages", "system_messages"])
    def test_may_come_with_system_texts(self, texts: Any, key: str) -> None:
        messages = make_list(("input", user()))
        messages.add_system("a", tag="t")
        Chain(input=[Hooks(process_input=lambda args: {key: texts})]).process_input(messages)
        assert messages.system_texts == ["b"]

    @pytest.mark.parametrize("hook", ["process_input", "process_input_step"])
    def test_that_are_none_are_noted_and_passed_over(self, hook: str) -> None:
        messages, chain = after_input(lambda args: 5, hook)
        assert ids(messages) == ["m1", "u1"]
        assert [(f.processor_id, f.hook) for f in chain.failures] == [("own", hook)]


class TestArguments:
    def test_of_the_input_hook_are_the_input(self) -> None:
        seen: list[Any] = []
        after_input(lambda args: seen.append(args))
        assert [m["id"] for m in seen[0].messages] == ["u1"]

    def test_share_one_state_per_processor(self) -> None:
        def count(args: Any) -> None:
            args.state["n"] = args.state.get("n", 0) + 1

        own = Hooks("a", process_input=count, process_output_result=count, process_api_error=count)
        other = Hooks("b", process_input=count)
        chain = Chain(input=[own, other], output=[own])
        messages = make_list(("input", user()))
        chain.process_input(messages)
        chain.process_api_error(failure(), messages)
        chain.process_output_result(messages, TurnEnd())
        assert chain.state == {"a": {"n": 3}, "b": {"n": 1}}

    def test_of_a_step_pass_from_one_hook_to_the_next(self) -> None:
        seen: list[Any] = []
        first = Hooks(process_input_step=lambda args: {"toolChoice": "none", "model_settings": {"t": 1}})
        chain = Chain(input=[first, Hooks(process_input_step=lambda args: seen.append(args))])
        settings = StepSettings(model="m")
        chain.process_input_step(make_list(), settings, step_number=2, steps=["one"])
        assert (settings.tool_choice, settings.model_settings, settings.model) == ("none", {"t": 1}, "m")
        assert (seen[0].tool_choice, seen[0].step_number, seen[0].steps) == ("none", 2, ["one"])


ASK = [{"role": "user", "content": [text("q")]}]


def requested(*answers: Any, prompt: Any = None) -> tuple[PromptResult, Chain]:
    chain = Chain(input=[Hooks(f"h{i}", process_llm_request=lambda args, a=a: a) for i, a in enumerate(answers)])
    messages = make_list(("input", user()))
    return chain.process_llm_request(messages.to_prompt() if prompt is None else prompt, messages, model=None), chain


class TestPromptHooks:
    @pytest.mark.parametrize(
        ("answers", "expected"),
        [
            ([None], ASK),
            ([{}], ASK),
            ([{"prompt": []}], []),
            ([{"prompt": Prompt(())}], []),
            ([PromptResult(prompt=Prompt(()))], []),
            ([PromptResult(prompt=[])], []),
            ([{"prompt": []}, None], []),
            ([{"prompt": []}, {"prompt": ASK}], ASK),
        ],
    )
    def test_are_believed_when_they_name_a_prompt(self, answers: Any, expected: Any) -> None:
        result, chain = requested(*answers)
        assert [{k: m[k] for k in ("role", "content")} for m in prompt_to_json(result.prompt)] == expected
        assert chain.failures == []

    @pytest.mark.parametrize("answer", [5, "x", Prompt(()), [], {"prompt": None}, {"prompt": [{"role": "robot"}]}])
    def test_are_noted_and_passed_over_otherwise(self, answer: Any) -> None:
        result, chain = requested(answer)
        assert len(result.prompt.messages) == 1
        assert [f.processor_id for f in chain.failures] == ["h0"]

    def test_leave_a_change_behind(self) -> None:
        result, _ = requested({"prompt": []})
        assert [(change.rule, change.before) for change in result.changes] == [("h0", "q")]

    def test_give_back_the_kind_they_were_given(self) -> None:
        assert requested(None, prompt=ASK)[0].prompt == ASK

    def test_may_bring_a_reply(self) -> None:
        assert requested({"response": "kept"})[0].response == "kept"


class TestErrorWalk:
    def test_goes_through_all_lists_once_per_object(self) -> None:
        order: list[str] = []

        def note(name: str, answer: Any = None) -> Any:
            def hook(args: Any) -> Any:
                order.append(name)
                if isinstance(answer, Exception):
                    raise answer
                return answer

            return Hooks(name, process_api_error=hook)

        both, broken, last = note("both"), note("broken", RuntimeError("x")), note("last", {"retry": True})
        chain = Chain(input=[both, Hooks("none")], output=[broken, both], error=[both, last, note("never")])
        asked = chain.process_api_error(failure(), make_list())
        assert (order, asked and asked.processor_id) == (["both", "broken", "last"], "last")
        assert [f.processor_id for f in chain.failures] == ["broken"]

    @pytest.mark.parametrize(
        ("answer", "is_asked", "failures"),
        [
            ({"retry": True}, True, 0),
            ({"retry": False}, False, 0),
            ({"retry": 1}, False, 0),
            ({}, False, 0),
            (None, False, 0),
            (Retry(), True, 0),
            (True, False, 1),
            ("retry", False, 1),
        ],
    )
    def test_takes_only_a_clear_answer(self, answer: Any, is_asked: bool, failures: int) -> None:
        chain = Chain(error=[Hooks(process_api_error=lambda args: answer)])
        assert (chain.process_api_error(failure(), make_list()) is not None) is is_asked
        assert len(chain.failures) == failures

    def test_lets_a_tripwire_through_with_its_name(self) -> None:
        with pytest.raises(Tripwire) as stopped:
            Chain(error=[Asks(Tripwire("enough"), id="guard")]).process_api_error(failure(), make_list())
        assert (stopped.value.processor_id, stopped.value.reason) == ("guard", "enough")

    def test_counts_per_processor_and_per_rule(self) -> None:
        chain = Chain(error=[Asks(Retry(rule="r"), id="a"), Asks(id="b")])
        asked = chain.process_api_error(failure(), make_list())
        assert asked is not None
        chain.granted(asked)
        assert chain.counts == {"a": 1, "a|r": 1}
        chain.step_succeeded()
        assert chain.counts == {"a|r": 1}


class TestOwnProcessors:
    @pytest.mark.parametrize(
        "hook", ["process_input", "process_input_step", "process_llm_request", "process_output_result"]
    )
    def test_that_break_are_noted_and_passed_over(self, hook: str) -> None:
        def broken(args: Any) -> Any:
            raise RuntimeError("blew up")

        chain = Chain(input=[Hooks(**{hook: broken})], output=[Hooks(**{hook: broken})])
        messages = make_list(("input", user()))
        chain.process_input(messages)
        chain.process_input_step(messages, StepSettings(), step_number=0)
        chain.process_llm_request(messages.to_prompt(), messages, model=None)
        chain.process_output_result(messages, TurnEnd())
        assert [(f.hook, f.message) for f in chain.failures] == [(hook, "RuntimeError: blew up")]

    def test_go_where_their_hooks_are_asked(self) -> None:
        everything = Hooks(process_llm_request=id, process_output_result=id, process_api_error=id)
        retry = StreamErrorRetryProcessor()
        assert short_form([everything, retry]) == ([everything], [everything], [everything, retry])

    def test_may_change_a_message_for_the_run_only(self) -> None:
        messages, _ = after_input(lambda args: [message("m1", text("changed")), *args.message_list.messages[1:]])
        assert parts(messages.messages[0]) == [text("changed")]
        assert [m["id"] for m in messages.unsaved()] == ["u1"]
        assert Text("x").text == "x"
