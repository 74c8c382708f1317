"""Lines of recorded exchanges and bare bodies as threads."""

from __future__ import annotations

import base64
import io
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from memory.access import operator
from memory.errors import Forbidden, InvalidInput
from memory.imports.detect import guessed_protocol
from memory.imports.sources import lines_in
from memory.messages.stored import text_of
from memory.models import Message, MessageVersion, Thread
from memory.sandbox.eventstream import event
from memory.services.importing import ImportReport, import_lines, try_lines
from memory.services.preview import preview
from memory.services.threads import append_messages, update_thread
from memory.store import DjangoStorage
from tests.make import caller, make_thread, text

pytestmark = pytest.mark.django_db

ASK = {"role": "user", "content": "How deep is the harbour?"}
CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "depth", "arguments": '{"at": "quay"}'}}],
}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "4.2 m"}
SAID = {"role": "assistant", "content": "4.2 metres at the quay."}
THANKS = {"role": "user", "content": "Thanks. And at the pier?"}
TOOL = {"type": "function", "function": {"name": "depth", "parameters": {"type": "object", "properties": {}}}}


def chat(
    line_id: str, *messages: dict[str, Any], answer: dict[str, Any] | None = None, **fields: Any
) -> dict[str, Any]:
    """A recorded exchange over openai-chat."""
    line = {
        "id": line_id,
        "provider": "openai-chat",
        "protocol": "openai-chat",
        "model": "gpt-4o",
        "status": 200,
        "request": {"model": "gpt-4o", "messages": list(messages)},
        "response": {"choices": [{"message": answer, "finish_reason": "stop"}]} if answer else None,
    }
    return {**line, **fields}


def claude(line_id: str, *messages: dict[str, Any], says: str, **fields: Any) -> dict[str, Any]:
    """A recorded exchange over anthropic-messages."""
    line = {
        "id": line_id,
        "provider": "anthropic",
        "protocol": "anthropic-messages",
        "model": "claude-opus-4-6",
        "status": 200,
        "request": {"model": "claude-opus-4-6", "max_tokens": 100, "messages": list(messages)},
        "response": {"content": [{"type": "text", "text": says}], "stop_reason": "end_turn"},
    }
    return {**line, **fields}


def run_import(*lines: Any, resource_id: str = "ada", **options: Any) -> ImportReport:
    texts = [line if isinstance(line, bytes | str) else msgspec.json.encode(line) for line in lines]
    return import_lines(texts, caller=operator("tester"), resource_id=resource_id, source="here", **options)


def stored(thread_id: str) -> list[dict[str, Any]]:
    return DjangoStorage().load_messages(thread_id, None, last=None)


def gist(thread_id: str) -> list[tuple[str, str, str]]:
    return [(m["id"], m["role"], text_of(m["content"])) for m in stored(thread_id)]


def rows() -> tuple[list[Any], list[Any]]:
    return list(Thread.objects.order_by("id").values()), list(Message.objects.order_by("id").values())


FIRST = chat("c.1", ASK, answer=CALL)
SECOND = chat("c.2", ASK, CALL, RESULT, answer=SAID, continues="c.1")
THIRD = chat("c.3", ASK, CALL, RESULT, SAID, THANKS, answer={"role": "assistant", "content": "3 m."}, continues="c.2")


class TestLines:
    def test_that_continue_another_extend_its_thread(self) -> None:
        report = run_import(FIRST, SECOND, THIRD)
        assert (report.threads_made, report.threads_extended, report.messages_added) == (1, 2, 5)
        assert report.skipped == []
        assert gist("import:c.1") == [
            ("c.1#0", "user", ASK["content"]),
            ("c.1#1", "assistant", ""),
            ("c.2#0", "assistant", SAID["content"]),
            ("c.3#0", "user", THANKS["content"]),
            ("c.3#1", "assistant", "3 m."),
        ]
        invocation = stored("import:c.1")[1]["content"]["parts"][0]["toolInvocation"]
        assert (invocation["state"], invocation["result"]) == ("result", "4.2 m")
        row = Thread.objects.get()
        assert (row.message_count, row.resource_id, row.title) == (5, "ada", ASK["content"])

    def test_leave_no_version_when_a_result_comes_later(self) -> None:
        run_import(FIRST)
        assert Message.objects.get(message_id="c.1#1").is_open
        run_import(SECOND)
        assert not Message.objects.filter(is_open=True).exists()
        assert not MessageVersion.objects.exists()

    def test_imported_again_change_nothing(self) -> None:
        run_import(FIRST, SECOND, THIRD)
        before = rows()
        for lines in ((FIRST, SECOND, THIRD), (THIRD,), (SECOND,)):
            report = run_import(*lines)
            assert (report.unchanged, report.threads_made, report.messages_added) == (len(lines), 0, 0)
        assert rows() == before

    def test_find_their_thread_in_a_later_import(self) -> None:
        run_import(FIRST, SECOND)
        report = run_import(THIRD)
        assert (report.threads_made, report.threads_extended, report.messages_added) == (0, 1, 2)
        assert Thread.objects.get().message_count == 5

    def test_that_fork_become_threads_of_their_own(self) -> None:
        other = chat("c.9", ASK, CALL, RESULT, answer={"role": "assistant", "content": "Deep enough."}, continues="c.1")
        report = run_import(FIRST, SECOND, other)
        assert (report.threads_made, report.threads_extended) == (2, 1)
        assert [text for _, _, text in gist("import:c.9")] == [ASK["content"], "", "Deep enough."]
        assert [text for _, _, text in gist("import:c.1")] == [ASK["content"], "", SAID["content"]]
        assert run_import(FIRST, SECOND, other).unchanged == 3

    def test_do_not_join_a_thread_that_went_on_by_itself(self) -> None:
        run_import(FIRST)
        append_messages(caller(), Thread.objects.get(), [text("meanwhile", id="own")])
        report = run_import(SECOND)
        assert (report.threads_made, report.threads_extended) == (1, 0)
        assert [role for _, role, _ in gist("import:c.1")] == ["user", "assistant", "user"]

    def test_do_not_join_a_thread_with_another_beginning(self) -> None:
        other = {"role": "user", "content": "Something else?"}
        run_import(FIRST, chat("c.2", other, CALL, RESULT, answer=SAID, continues="c.1"))
        assert set(Thread.objects.values_list("id", flat=True)) == {"import:c.1", "import:c.2"}

    def test_continue_across_protocols_and_renamed_ids(self) -> None:
        use = {"type": "tool_use", "id": "renamed", "name": "depth", "input": {"at": "quay"}}
        result = {"type": "tool_result", "tool_use_id": "renamed", "content": "4.2 m"}
        line = claude(
            "c.2",
            ASK,
            {"role": "assistant", "content": [use]},
            {"role": "user", "content": [result]},
            says="Four metres.",
            continues="c.1",
        )
        assert run_import(FIRST, line).threads_extended == 1
        invocation = stored("import:c.1")[1]["content"]["parts"][0]["toolInvocation"]
        assert (invocation["toolCallId"], invocation["state"], invocation["result"]) == ("call_1", "result", "4.2 m")

    def test_keep_the_reasoning_that_a_client_sent_back_as_text(self) -> None:
        answer = {"role": "assistant", "content": "12.", "reasoning": "3 times 4"}
        again = {"role": "assistant", "content": "<think>\n3 times 4\n</think>\n\n12."}
        run_import(
            chat("r.1", ASK, answer=answer, provider="cerebras"),
            chat("r.2", ASK, again, THANKS, answer=SAID, provider="cerebras", continues="r.1"),
        )
        assert [part["type"] for part in stored("import:r.1")[1]["content"]["parts"]] == ["reasoning", "text"]


class TestStamps:
    def test_say_who_wrote_each_turn(self) -> None:
        line = claude("c.3", ASK, {"role": "assistant", "content": "4.2 m."}, THANKS, says="3 m.", continues="c.1")
        run_import(chat("c.1", ASK, answer={"role": "assistant", "content": "4.2 m."}), line)
        stamps = [message["content"].get("metadata") for message in stored("import:c.1")]
        openai = {"provider": "openai", "protocol": "openai-chat", "modelId": "gpt-4o"}
        anthropic = {"provider": "anthropic", "protocol": "anthropic-messages", "modelId": "claude-opus-4-6"}
        assert stamps == [None, openai, None, anthropic]
        row = Thread.objects.get()
        assert (row.last_provider, row.last_model) == ("anthropic", "claude-opus-4-6")

    def test_give_a_turn_that_was_not_recorded_to_the_line_before(self) -> None:
        report = run_import(
            chat("c.1", ASK),
            claude("c.2", ASK, {"role": "assistant", "content": "4 m."}, THANKS, says="3 m.", continues="c.1"),
        )
        assert report.skipped == []
        assert [m["content"]["metadata"]["provider"] for m in stored("import:c.1") if m["role"] == "assistant"] == [
            "openai",
            "anthropic",
        ]

    def test_of_a_line_without_a_predecessor_are_its_own(self) -> None:
        run_import(chat("c.7", ASK, SAID, THANKS, answer=SAID, continues="nowhere"))
        assert {m["content"]["metadata"]["provider"] for m in stored("import:c.7") if m["role"] == "assistant"} == {
            "openai"
        }


class TestThreads:
    def test_keep_system_texts_and_tools_for_the_preview(self) -> None:
        line = chat("s.1", {"role": "system", "content": "Be brief."}, ASK, answer=SAID)
        line["request"]["tools"] = [TOOL]
        run_import(line)
        imported = Thread.objects.get().imported
        assert (imported["system"], [tool["name"] for tool in imported["tools"]]) == (["Be brief."], ["depth"])
        assert (imported["provider"], imported["protocol"], imported["model"], imported["line"]) == (
            "openai",
            "openai-chat",
            "gpt-4o",
            "s.1",
        )
        shown = preview(operator("x"), thread_id="import:s.1", provider="anthropic", model="claude-sonnet-4-5")
        body = msgspec.json.decode(shown.request.body)
        assert body["system"] == [{"type": "text", "text": "Be brief."}]
        assert [tool["name"] for tool in body["tools"]] == ["depth"]

    def test_keep_other_metadata_when_extended(self) -> None:
        run_import(FIRST)
        row = Thread.objects.get()
        update_thread(row, metadata={**row.metadata, "colour": "blue"})
        run_import(SECOND)
        row = Thread.objects.get()
        assert (row.metadata, row.imported["line"]) == ({"colour": "blue"}, "c.2")

    def test_are_dated_by_the_line_else_a_second_apart(self) -> None:
        run_import(FIRST, SECOND)
        times = [message["createdAt"] for message in stored("import:c.1")]
        assert times == ["2026-01-01T00:00:00.000Z", "2026-01-01T00:00:01.000Z", "2026-01-01T00:00:02.000Z"]
        run_import(chat("d.1", ASK, answer=SAID, headers={"Date": "Tue, 03 Mar 2026 10:00:00 GMT"}))
        assert stored("import:d.1")[0]["createdAt"] == "2026-03-03T10:00:00.000Z"

    def test_were_active_when_the_clock_says(self) -> None:
        at = datetime(2026, 5, 1, tzinfo=UTC)
        run_import(FIRST, clock=lambda: at)
        assert Thread.objects.get().last_activity_at == at

    def test_have_the_first_words_of_the_user_as_title(self) -> None:
        run_import(chat("t.1", {"role": "user", "content": "  \n"}, {"role": "user", "content": "a\n b " + "x" * 100}))
        assert Thread.objects.get().title == ("a b " + "x" * 100)[:80]

    def test_with_ids_no_row_can_hold_get_a_hash(self) -> None:
        lines = [chat("a/b", ASK, answer=SAID), chat("x" * 200, ASK, answer=SAID), chat("n\x00l", ASK, answer=SAID)]
        assert run_import(*lines).threads_made == 3
        assert run_import(*lines).unchanged == 3
        assert not Thread.objects.filter(id__contains="/").exists()

    def test_of_another_resource_are_not_touched(self) -> None:
        run_import(FIRST, resource_id="bob")
        before = rows()
        report = run_import(FIRST)
        assert report.skipped == [("c.1", "the thread id import:c.1 is taken")]
        assert rows() == before
        make_thread("ada", id="import:c.8")
        assert run_import(chat("c.8", ASK)).skipped == [("c.8", "the thread id import:c.8 is taken")]

    def test_can_only_be_made_for_the_caller_s_resource(self) -> None:
        with pytest.raises(Forbidden):
            import_lines([msgspec.json.encode(FIRST)], caller=caller("bob"), resource_id="ada", source="x")
        with pytest.raises(InvalidInput):
            run_import(FIRST, resource_id="")
        assert not Thread.objects.exists()


class TestWhatIsLeftOut:
    def test_a_broken_line_is_named_and_stops_nothing(self) -> None:
        broken = chat("bad.1", ASK)
        broken["request"]["messages"] = [{"role": "nobody"}]
        unknown = chat("odd.1", ASK, protocol="smoke-signals")
        report = run_import(b"{", b"", b"[1]", {"id": "x"}, broken, unknown, chat("e.1"), FIRST)
        assert [name for name, _ in report.skipped] == ["line 1", "line 3", "x", "bad.1", "odd.1", "e.1"]
        reasons = dict(report.skipped)
        assert "not JSON" in reasons["line 1"]
        assert "messages[0].role" in reasons["bad.1"]
        assert "smoke-signals" in reasons["odd.1"]
        assert Thread.objects.get().id == "import:c.1"

    def test_a_line_without_a_request_is_named(self) -> None:
        report = run_import(chat("c.1", answer=SAID, request=None))
        assert report.skipped == [("c.1", "it holds no request")]
        assert not Thread.objects.exists()

    def test_an_error_becomes_the_thread_s_last_error_and_nothing_else(self) -> None:
        error = {"error": {"message": "The model `gpt-9`\ndoes not exist", "type": "invalid_request_error"}}
        assert run_import(chat("c.1", ASK, status=404, response=error)).skipped == []
        row = Thread.objects.get()
        assert row.last_error == "bad-request: The model `gpt-9` does not exist"
        assert gist("import:c.1") == [("c.1#0", "user", ASK["content"])]
        run_import(chat("c.2", ASK, answer=SAID, continues="c.1"))
        assert Thread.objects.get().last_error == ""
        assert len(gist("import:c.1")) == 2

    def test_an_answer_that_can_t_be_read_is_named(self) -> None:
        report = run_import(chat("c.1", ASK, response={"choices": []}), chat("c.2", ASK, response=[1]))
        assert [name for name, _ in report.skipped] == ["c.1", "c.2"]
        assert Message.objects.count() == 2


def chunk(delta: dict[str, Any], **fields: Any) -> str:
    return "data: " + msgspec.json.encode({"choices": [{"index": 0, "delta": delta, **fields}]}).decode() + "\n\n"


def converse(line_id: str, **answer: Any) -> dict[str, Any]:
    request = {"messages": [{"role": "user", "content": [{"text": "How deep?"}]}]}
    line = {"id": line_id, "provider": "bedrock", "protocol": "bedrock-converse", "model": "nova", "request": request}
    return {**line, "response": None, **answer}


class TestStreams:
    def test_become_the_answer_that_they_say(self) -> None:
        sse = chunk({"role": "assistant", "content": "4.2 "}) + chunk({"content": "m"}, finish_reason="stop")
        assert run_import(chat("c.1", ASK, sse=sse + "data: [DONE]\n\n")).skipped == []
        assert gist("import:c.1") == [("c.1#0", "user", ASK["content"]), ("c.1#1", "assistant", "4.2 m")]

    def test_of_bedrock_come_as_events_or_as_bytes(self) -> None:
        events = [
            {"messageStart": {"role": "assistant"}},
            {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": "4.2 m"}}},
            {"contentBlockStop": {"contentBlockIndex": 0}},
            {"messageStop": {"stopReason": "end_turn"}},
            {"metadata": {"usage": {"inputTokens": 1, "outputTokens": 1}}},
        ]
        frames = b"".join(event(kind, msgspec.json.encode(data)) for one in events for kind, data in one.items())
        run_import(
            converse("b.1", events=events),
            converse("b.2", eventstream_base64=base64.b64encode(frames).decode()),
        )
        for line_id in ("b.1", "b.2"):
            assert [text for _, _, text in gist(f"import:{line_id}")] == ["How deep?", "4.2 m"]

    def test_that_broke_off_leave_what_had_come_and_the_error(self) -> None:
        events = [
            {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": "Four"}}},
            {"throttlingException": {"message": "Too many tokens"}},
        ]
        assert run_import(converse("b.1", events=events)).skipped == []
        assert [text for _, _, text in gist("import:b.1")] == ["How deep?", "Four"]
        assert Thread.objects.get().last_error == "rate-limit: Too many tokens"

    def test_that_are_not_base64_are_named(self) -> None:
        report = run_import(converse("b.1", eventstream_base64="?"))
        assert report.skipped == [("b.1", "eventstream_base64: not base64")]


class TestStateAtTheProvider:
    def test_is_what_an_answer_s_id_stands_for(self) -> None:
        def line(line_id: str, said: str, answer: str, **request: Any) -> dict[str, Any]:
            output = [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": answer}]}]
            about = {"provider": "openai", "protocol": "openai-responses", "model": "gpt-5"}
            response = {"id": f"resp_{line_id}", "status": "completed", "output": output}
            return {"id": line_id, **about, "request": {"input": said, **request}, "response": response}

        report = run_import(
            line("r.1", "How deep?", "4.2 m"),
            {**line("r.2", "And now?", "4 m", previous_response_id="resp_r.1"), "continues": "r.1"},
        )
        assert (report.threads_made, report.threads_extended, report.skipped) == (1, 1, [])
        assert [text for _, _, text in gist("import:r.1")] == ["How deep?", "4.2 m", "And now?", "4 m"]


class TestFormats:
    CHAT = {"id": "x", "messages": [{"id": "1", "role": "user", "parts": [{"type": "text", "text": "Hello"}]}]}

    def test_are_told_from_each_line_or_named(self) -> None:
        assert run_import(self.CHAT, {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}).threads_made == 2
        assert Thread.objects.get(id="import:x").imported["format"] == "ai-sdk"
        assert run_import(self.CHAT, format_="ai-sdk").unchanged == 1
        report = run_import(self.CHAT, format_="langchain")
        assert [name for name, _ in report.skipped] == ["import:x"]

    def test_that_nobody_knows_are_refused(self) -> None:
        with pytest.raises(InvalidInput, match="no format is called 'telegram'"):
            run_import(self.CHAT, format_="telegram")

    def test_keep_the_owner_only_where_the_caller_may_act_for_it(self) -> None:
        value = {"threads": [{"id": "t", "resourceId": "eve", "messages": [{"id": "1", **text("Hi")}]}]}
        lines = [msgspec.json.encode(value)]
        report = import_lines(lines, caller=caller("ada"), resource_id="ada", source="x", keep_owner=True)
        assert report.skipped == [("t", "this key acts for another resource")]
        assert (
            import_lines(lines, caller=operator("x"), resource_id="ada", source="x", keep_owner=True).threads_made == 1
        )
        assert Thread.objects.get().resource_id == "eve"

    def test_can_be_tried_without_a_row(self) -> None:
        report = ImportReport()
        lines = [msgspec.json.encode(self.CHAT)]
        trials = list(try_lines(lines, caller=operator("x"), targets=["openai/gpt-4o"], report=report))
        assert [(trial.thread_id, trial.error) for trial in trials] == [("import:x", "")]
        assert not Thread.objects.exists()


class TestBareBodies:
    BODY = {"model": "gpt-4o", "messages": [ASK, SAID]}

    def test_become_threads_once(self) -> None:
        assert run_import(self.BODY).threads_made == 1
        assert run_import(self.BODY).unchanged == 1
        row = Thread.objects.get()
        assert row.id.startswith("import:body-")
        assert [m["content"].get("metadata") for m in stored(row.id)][1]["provider"] == "openai"

    @pytest.mark.parametrize(
        ("body", "protocol"),
        [
            ({"system": "Hi", "max_tokens": 5, "messages": [ASK]}, "anthropic-messages"),
            ({"max_tokens": 5, "messages": [{"role": "user", "content": [{"type": "text"}]}]}, "anthropic-messages"),
            ({"messages": [{"role": "assistant", "content": [{"type": "thinking"}]}]}, "anthropic-messages"),
            ({"messages": [ASK], "tools": [{"name": "a", "input_schema": {}}]}, "anthropic-messages"),
            ({"model": "claude-3", "max_tokens": 5, "messages": [ASK]}, "anthropic-messages"),
            ({"max_tokens": 5, "messages": [ASK]}, "openai-chat"),
            ({"max_tokens": 5, "messages": [ASK, CALL, RESULT]}, "openai-chat"),
            ({"max_tokens": 5, "messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "openai-chat"),
            ({"messages": [None, 1], "tools": [1]}, "openai-chat"),
            (
                {"messages": [ASK], "tools": [{"type": "web_search_20250305", "name": "web_search"}]},
                "anthropic-messages",
            ),
            ({"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}, "gemini-contents"),
            ({"input": "Hi", "model": "gpt-5"}, "openai-responses"),
            ({"messages": [{"role": "user", "content": [{"text": "Hi"}]}]}, "bedrock-converse"),
            ({"messages": [ASK], "inferenceConfig": {"maxTokens": 5}}, "bedrock-converse"),
            ({"messages": [ASK], "model": "command-a-03-2025"}, "cohere-v2"),
            ({"messages": [{"role": "assistant", "tool_plan": "look"}]}, "cohere-v2"),
        ],
    )
    def test_are_told_apart_by_what_only_one_protocol_has(self, body: dict[str, Any], protocol: str) -> None:
        assert guessed_protocol(body) == protocol


class TestFiles:
    def test_hold_lines_or_one_body_or_a_list(self) -> None:
        one, two = msgspec.json.encode(FIRST), msgspec.json.encode(SECOND)
        pretty = msgspec.json.format(one, indent=2)
        listed = b"[\n" + pretty + b",\n" + two + b"\n]"
        for content, expected in (
            (one + b"\n" + two + b"\n", [FIRST, SECOND]),
            (b"\n" + one + b"\n", [FIRST]),
            (b"\xef\xbb\xbf" + one, [FIRST]),
            (pretty, [FIRST]),
            (listed, [FIRST, SECOND]),
            (b"[" + one + b"," + two + b"]", [FIRST, SECOND]),
        ):
            found = [msgspec.json.decode(line) for line in lines_in(io.BytesIO(content)) if line.strip()]
            assert found == expected

    def test_with_a_broken_first_line_give_the_others(self) -> None:
        lines = list(lines_in(io.BytesIO(b"{oops\n" + msgspec.json.encode(FIRST) + b"\n")))
        assert run_import(*lines).threads_made == 1


class TestTrying:
    def test_previews_whole_conversations_and_leaves_no_row(self) -> None:
        make_thread("ada", messages=2)
        before = rows()
        report = ImportReport()
        lines = [msgspec.json.encode(line) for line in (FIRST, SECOND, THIRD)]
        targets = ["anthropic/claude-sonnet-4-5", "gemini/gemini-2.5-pro"]
        trials = list(try_lines(lines, caller=operator("x"), targets=targets, report=report))
        assert (report.threads_made, report.threads_extended, report.messages_added) == (1, 2, 5)
        assert [(trial.thread_id, trial.target) for trial in trials] == [("import:c.1", target) for target in targets]
        assert trials[0].preview is not None
        assert len(trials[0].preview.messages) == 5
        assert rows() == before

    def test_says_why_there_is_no_preview(self) -> None:
        trials = try_lines(
            [msgspec.json.encode(FIRST)], caller=operator("x"), targets=["nobody/x"], report=ImportReport()
        )
        assert [(trial.preview, trial.error) for trial in trials] == [(None, "no provider is called 'nobody'")]
