from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from memory.messages.stored import write_json
from memory.models import Message, Thread
from memory.services.rules import switch_rule
from tests.make import add_messages, caller, make_thread, message, text, tool_call

KIMI = {"provider": "moonshot", "protocol": "openai-chat", "modelId": "kimi-k2"}
OPENAI_BODY = {
    "model": "gpt-5",
    "messages": [
        {"role": "user", "content": "When does the train leave? <script>alert(1)</script>"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "call:1.a", "type": "function", "function": {"name": "timetable", "arguments": "{}"}}
            ],
        },
        {"role": "tool", "tool_call_id": "call:1.a", "content": "08:05"},
    ],
}


def foreign_thread() -> Thread:
    thread = make_thread(title="begun elsewhere")
    add_messages(
        thread,
        text("When does the train leave?"),
        message(
            {"type": "reasoning", "reasoning": "Look it up", "details": [{"type": "text", "text": "Look it up"}]},
            tool_call("functions.timetable:0", state="result", result="08:05"),
            metadata=KIMI,
        ),
        text("Thanks"),
        text("Bye"),
    )
    return thread


class TestThreadPreview:
    def test_shows_what_changed_by_which_rule_beside_what_is_sent(self, pages: Client) -> None:
        thread = foreign_thread()

        shown = pages.get(f"/threads/{thread.id}/preview/?provider=anthropic").content.decode()

        assert "anthropic-tool-id-charset" in shown
        assert "anthropic-thinking-signature-missing" in shown
        assert "functions_timetable_0" in shown
        assert "2 changes" in shown
        # The number of a change stands beside the stored part, the note and the lines of the request.
        assert shown.count('href="#c2"') >= 4
        assert "#3 to #4, 2 messages as stored" in shown
        assert "Nothing is called, nothing is stored." in shown

    def test_links_each_message_to_its_place_in_the_thread(self, pages: Client) -> None:
        thread = foreign_thread()

        shown = pages.get(f"/threads/{thread.id}/preview/").content.decode()

        assert f'href="/threads/{thread.id}/?before=3#m-2"' in shown

    def test_leaves_a_rule_out_for_this_look_only(self, pages: Client) -> None:
        thread = foreign_thread()
        address = f"/threads/{thread.id}/preview/?provider=anthropic"

        with_rule = pages.get(address).content.decode()
        assert "off=anthropic-tool-id-charset" in with_rule
        without = pages.get(f"{address}&off=anthropic-tool-id-charset").content.decode()

        assert "functions_timetable_0" not in without
        assert "Off for this look" in without
        assert "functions_timetable_0" in pages.get(address).content.decode()

    def test_tells_findings_of_a_rule_that_only_reports(self, pages: Client) -> None:
        thread = foreign_thread()
        switch_rule(caller(), "anthropic-tool-id-charset", "report")

        shown = pages.get(f"/threads/{thread.id}/preview/?provider=anthropic").content.decode()

        assert "Findings" in shown
        assert "functions_timetable_0&quot;" not in shown

    def test_answers_htmx_with_the_result_only(self, pages: Client) -> None:
        thread = foreign_thread()

        answer = pages.get(f"/threads/{thread.id}/preview/", headers={"HX-Request": "true"})

        assert answer.content.decode().lstrip().startswith('<section id="result"')
        assert "HX-Request" in answer["Vary"]

    def test_gives_the_exact_bytes(self, pages: Client) -> None:
        thread = foreign_thread()

        answer = pages.get(f"/threads/{thread.id}/preview/request/?provider=anthropic&model=claude-x")

        assert answer["Content-Disposition"].startswith("attachment")
        assert b'"model":"claude-x"' in answer.content
        assert b"functions_timetable_0" in answer.content

    def test_of_a_long_thread_says_that_it_looks_at_the_newest_only(self, pages: Client) -> None:
        thread = make_thread(messages=260)

        shown = pages.get(f"/threads/{thread.id}/preview/?provider=openai").content.decode()

        assert "Only the newest 200 of 260 messages" in shown
        assert "last=1000" in shown
        whole = pages.get(f"/threads/{thread.id}/preview/?provider=openai&last=1000").content.decode()
        assert "Only the newest" not in whole
        assert "message 0" in whole

    @pytest.mark.parametrize(
        "query",
        ["provider=nobody", "provider=gemini", "agent=nobody", "off=nonsense", "last=-3", "last=x", "model=%00"],
    )
    def test_of_nonsense_is_a_page_that_says_so(self, pages: Client, query: str) -> None:
        thread = foreign_thread()

        answer = pages.get(f"/threads/{thread.id}/preview/?{query}")

        assert answer.status_code in (200, 422)
        assert "<h1>" in answer.content.decode()

    def test_never_lets_content_become_markup(self, pages: Client) -> None:
        evil = "</span><script>alert(1)</script>"
        thread = make_thread(title=evil)
        add_messages(
            thread, text(evil), message(tool_call(f"{evil}:1", state="result", result={evil: evil}), metadata=KIMI)
        )

        for provider in ("anthropic", "openai", "cerebras"):
            shown = pages.get(f"/threads/{thread.id}/preview/?provider={provider}&model={evil}").content.decode()
            assert "<script>alert" not in shown

    def test_costs_the_same_number_of_queries_with_more_rows(
        self, pages: Client, django_assert_num_queries: Any
    ) -> None:
        thread = foreign_thread()
        address = f"/threads/{thread.id}/preview/?provider=anthropic"
        with django_assert_num_queries(10):
            pages.get(address)
        add_messages(thread, *(text(f"more {i}") for i in range(50)))
        with django_assert_num_queries(10):
            pages.get(address)

    def test_of_a_huge_result_stays_small(self, pages: Client) -> None:
        thread = make_thread()
        add_messages(thread, text("go"), message(tool_call(state="result", result="x" * 5_000_000)), text("and?"))

        answer = pages.get(f"/threads/{thread.id}/preview/?provider=anthropic")

        assert len(answer.content) < 300_000
        assert "5 MB in all" in answer.content.decode()


class TestPaste:
    def post(self, pages: Client, history: Any, **fields: Any) -> Any:
        body = history if isinstance(history, str) else write_json(history)
        values = {"history": body, "format": "openai-chat", "provider": "anthropic", "model": "claude-x", **fields}
        return pages.post("/preview/", values)

    def test_shows_the_request_and_stores_nothing(self, pages: Client) -> None:
        answer = self.post(pages, OPENAI_BODY)

        shown = answer.content.decode()
        assert answer.status_code == 200
        assert "anthropic-tool-id-charset" in shown
        assert "<script>alert" not in shown
        assert not Thread.objects.exists()
        assert not Message.objects.exists()

    def test_takes_a_file_instead_of_the_box(self, pages: Client) -> None:
        file = SimpleUploadedFile("body.json", write_json(OPENAI_BODY).encode())

        answer = self.post(pages, "not looked at", file=file)

        assert answer.status_code == 200
        assert "call_1_a" in answer.content.decode()

    def test_takes_stored_messages(self, pages: Client) -> None:
        messages = [{"role": "user", "content": {"format": 2, "parts": [{"type": "text", "text": "Hello there"}]}}]

        answer = self.post(pages, messages, format="stored")

        assert answer.status_code == 200
        assert "Hello there" in answer.content.decode()

    def test_gives_the_request_as_a_file(self, pages: Client) -> None:
        answer = self.post(pages, OPENAI_BODY, download="1")

        assert answer["Content-Disposition"].startswith("attachment")
        assert b"call_1_a" in answer.content

    @pytest.mark.parametrize(
        ("history", "fields", "words"),
        [
            ("", {}, "Paste a history or choose a file"),
            ("{", {}, "not JSON"),
            ("[" * 5000, {}, "not JSON"),
            ("[]", {}, "Expected the body of a request"),
            ('{"messages": 3}', {}, ""),
            ('{"messages": [{"role": "user", "content": 3}]}', {}, ""),
            ("3", {"format": "stored"}, "Expected a list of stored messages"),
            ('[{"role": "user", "content": {"parts": 3}}]', {"format": "stored"}, "content.parts"),
            ('[{"id": 3}, {"role": []}]', {"format": "stored"}, ""),
            ('{"messages": []}', {"format": "nonsense"}, "Format"),
            ('{"messages": [{"role": "user", "content": "x"}]}', {"provider": "nobody"}, "Provider"),
        ],
    )
    def test_says_under_the_field_what_does_not_fit(
        self, pages: Client, history: str, fields: dict[str, str], words: str
    ) -> None:
        answer = self.post(pages, history, **fields)

        assert answer.status_code in (200, 422)
        shown = answer.content.decode()
        assert words in shown
        if answer.status_code == 422:
            assert 'role="alert"' in shown
            # What was typed is still there.
            assert 'id="history"' in shown
