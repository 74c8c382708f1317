import json
import re
import zlib
from datetime import timedelta
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import transaction
from django.test import Client
from django.utils import timezone

from memory.messages.values import write_json
from memory.models import Message, MessageVersion, Thread
from memory.processors.changes import Placed
from memory.services.rules import switch_rule
from tests.make import add_messages, caller, make_agent, make_attempt, make_run, make_thread, message, text, tool_call

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
        with django_assert_num_queries(13):
            pages.get(address)
        add_messages(thread, *(text(f"more {i}") for i in range(50)))
        with django_assert_num_queries(13):
            pages.get(address)

    def test_of_a_huge_result_stays_small(self, pages: Client) -> None:
        thread = make_thread()
        add_messages(thread, text("go"), message(tool_call(state="result", result="x" * 20_000_000)), text("and?"))

        answer = pages.get(f"/threads/{thread.id}/preview/?provider=anthropic")

        assert len(answer.content) < 200_000
        assert "20 MB in all" in answer.content.decode()

    def test_of_many_changes_is_a_page_and_a_way_on(self, pages: Client) -> None:
        thread = make_thread()
        for i in range(100):
            call = tool_call(f"{i}:functions." + "x" * 50, "result", result={str(n): "y" * 60 for n in range(30)})
            add_messages(thread, text(f"question {i}"), message(call, metadata=KIMI))
        address = f"/threads/{thread.id}/preview/?provider=anthropic"

        numbers: list[str] = []
        row = "0"
        for _ in range(10):
            answer = pages.get(f"{address}&row={row}")
            shown = answer.content.decode()
            assert len(answer.content) < 200_000
            assert "100 changes" in shown
            assert ("From the beginning" in shown) == (row != "0")
            numbers += re.findall(r'id="c(\d+)"', shown)
            following = re.search(r'row=(\d+)">Go on', shown)
            if following is None:
                break
            row = following[1]
        # Each change stands on exactly one of the pages.
        assert row != "0"
        assert sorted(map(int, numbers)) == list(range(1, 101))

    def test_counts_changes_by_step_and_shows_one_step_alone(self, pages: Client) -> None:
        thread = foreign_thread()
        address = f"/threads/{thread.id}/preview/?provider=anthropic"

        shown = pages.get(address).content.decode()
        assert "2 Reasoning<b>1 change</b>" in shown
        assert "5 Ids, names<b>1 change</b>" in shown
        assert "6 Media<b>no change</b>" in shown
        alone = pages.get(f"{address}&step=5").content.decode()

        assert 'id="c2"' in alone
        assert 'id="c1"' not in alone
        # The strip still tells of all of them.
        assert "2 Reasoning<b>1 change</b>" in alone

    def test_leaves_out_what_nothing_touched_where_asked(self, pages: Client) -> None:
        thread = foreign_thread()

        shown = pages.get(f"/threads/{thread.id}/preview/?provider=anthropic&only=1").content.decode()

        assert "messages as stored" not in shown
        assert shown.count('class="xrow') == 1
        assert "functions_timetable_0" in shown

    def test_says_whether_the_target_would_take_it(self, pages: Client) -> None:
        thread = foreign_thread()
        address = f"/threads/{thread.id}/preview/?provider=anthropic"

        assert "anthropic would take it" in pages.get(address).content.decode()
        without = pages.get(f"{address}&off=anthropic-tool-id-charset").content.decode()
        switch_rule(caller(), "anthropic-tool-id-charset", "off")
        switched = pages.get(address).content.decode()

        for shown in (without, switched):
            assert "anthropic would refuse it" in shown
            assert "anthropic would take it" not in shown

    def test_leads_back_where_a_rule_that_is_off_leaves_no_request(self, pages: Client) -> None:
        thread = make_thread()
        hosted = {**tool_call("srv_1", "result", result="x"), "providerExecuted": True}
        add_messages(thread, text("go"), message(hosted, metadata={"provider": "anthropic", "modelId": "claude-x"}))

        answer = pages.get(f"/threads/{thread.id}/preview/?provider=openai&off=any-hosted-tool")

        shown = answer.content.decode()
        assert answer.status_code == 422
        assert "With 1 rule off there is no request" in shown
        assert f'href="/threads/{thread.id}/preview/?provider=openai&amp;model=gpt-5"' in shown

    def test_is_of_the_thread_s_own_agent_where_none_is_named(self, pages: Client) -> None:
        agent = make_agent(instructions="You sell tickets.", model="anthropic/claude-opus-4-6")
        thread = make_thread(agent=agent, messages=1)
        address = f"/threads/{thread.id}/preview/"

        assert "You sell tickets." in pages.get(address).content.decode()
        without = pages.get(f"{address}?agent=").content.decode()
        assert "You sell tickets." not in without
        # Links of a look without it stay without it.
        assert f"{address}request/?provider=anthropic&amp;model=claude-opus-4-6&amp;agent=" in without

    def test_links_every_change_to_its_rule(self, pages: Client) -> None:
        thread = foreign_thread()

        shown = pages.get(f"/threads/{thread.id}/preview/?provider=anthropic").content.decode()

        assert 'href="/rules/anthropic-tool-id-charset/"' in shown
        assert 'href="/rules/anthropic-thinking-signature-missing/"' in shown


def recorded(thread: Thread, body: Any, *changes: Placed, **fields: Any) -> str:
    """An attempt of the thread's; how its address names it."""
    run = make_run(thread)
    attempt = make_attempt(
        run, request_body=zlib.compress(write_json(body).encode()), changes=write_json(list(changes)), **fields
    )
    return f"{run.id}:{attempt.number}"


class TestPastAttempt:
    def renamed(self, message_id: str, **fields: Any) -> Placed:
        values: dict[str, Any] = {
            "number": 1,
            "rule": "anthropic-tool-id-charset",
            "family": "",
            "severity": "breaks",
            "stored": "/messages/1/content/parts/0",
            "sent": "/messages/1/content/0",
            "also_sent": (),
            "message_id": message_id,
            "before": "functions.timetable:0",
            "after": "as_it_was_then",
            "reason": "as the reason was then",
            "loss": "same",
        }
        return Placed(**{**values, **fields})

    def body(self) -> dict[str, Any]:
        call = {"type": "tool_use", "id": "as_it_was_then", "name": "timetable", "input": {}}
        return {
            "model": "claude-x",
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "When?"}]},
                {"role": "assistant", "content": [call]},
                {"role": "user", "content": [{"type": "text", "text": "Thanks"}]},
            ],
        }

    def test_shows_what_was_recorded_and_works_out_nothing(self, pages: Client) -> None:
        thread = foreign_thread()
        message_id = thread.messages.get(seq=2).message_id
        at = recorded(thread, self.body(), self.renamed(message_id), status=200)
        # Today's rule would not even act.
        switch_rule(caller(), "anthropic-tool-id-charset", "off")

        shown = pages.get(f"/threads/{thread.id}/preview/?at={at}").content.decode()

        assert "As recorded" in shown
        assert "as_it_was_then" in shown
        assert "as the reason was then" in shown
        assert "functions_timetable_0" not in shown
        assert "200, answered" in shown
        assert "What if this rule were off" not in shown
        assert 'href="#c1"' in shown

    def test_shows_a_message_as_it_was_then(self, pages: Client) -> None:
        thread = foreign_thread()
        row = thread.messages.get(seq=2)
        # SQLite says to the millisecond when a text was replaced.
        before = timezone.now() - timedelta(milliseconds=1)
        at = recorded(thread, self.body(), self.renamed(row.message_id), started_at=before)
        with transaction.atomic():
            Message.objects.filter(id=row.id).update(
                content=row.content.replace("Look it up", "Not any more"), version=2
            )
        assert MessageVersion.objects.exists()

        shown = pages.get(f"/threads/{thread.id}/preview/?at={at}").content.decode()

        assert "Look it up" in shown
        assert "Not any more" not in shown
        assert "version 1, changed since" in shown

    def test_shows_what_was_left_out_between_its_neighbours(self, pages: Client) -> None:
        thread = foreign_thread()
        ids = dict(thread.messages.values_list("seq", "message_id"))
        gone = self.renamed(ids[3], number=2, stored="/messages/2/content/parts/0", sent=None, after=None)
        at = recorded(thread, self.body(), self.renamed(ids[2]), gone)

        shown = pages.get(f"/threads/{thread.id}/preview/?at={at}").content.decode()

        assert shown.index('id="c1"') < shown.index('id="c2"') < shown.index("The exact JSON")
        assert "The marked parts were not sent" in shown

    def test_is_chosen_from_the_list(self, pages: Client) -> None:
        thread = foreign_thread()
        at = recorded(thread, self.body(), status=529)

        shown = pages.get(f"/threads/{thread.id}/preview/").content.decode()

        assert f'<option value="{at}"' in shown
        assert "attempt 1 (529)" in shown

    @pytest.mark.parametrize("at", ["nonsense", "run-x:1", ":", "run:9999999999", "a:b:c"])
    def test_that_is_not_there_says_so(self, pages: Client, at: str) -> None:
        thread = foreign_thread()

        answer = pages.get(f"/threads/{thread.id}/preview/?at={at}")

        assert answer.status_code == 422
        assert "no such attempt" in answer.content.decode()

    def test_of_another_thread_is_not_shown(self, pages: Client) -> None:
        at = recorded(make_thread(), self.body())
        thread = foreign_thread()

        assert pages.get(f"/threads/{thread.id}/preview/?at={at}").status_code == 422

    @pytest.mark.parametrize("body", ["not json", [1, 2], {"messages": 3}, {}])
    def test_of_an_odd_record_is_a_page(self, pages: Client, body: Any) -> None:
        thread = foreign_thread()
        run = make_run(thread)
        raw = body.encode() if isinstance(body, str) else write_json(body).encode()
        make_attempt(run, request_body=zlib.compress(raw), changes='[{"rule": "x"}]', findings='["y", {"rule": 3}]')

        answer = pages.get(f"/threads/{thread.id}/preview/?at={run.id}:1")

        assert answer.status_code in (200, 422)
        assert "<h1>" in answer.content.decode()


class TestCacheBreak:
    def test_is_told_with_the_first_difference(self, pages: Client) -> None:
        thread = foreign_thread()
        address = f"/threads/{thread.id}/preview/?provider=anthropic&model=claude-x"
        sent = json.loads(pages.get(f"/threads/{thread.id}/preview/request/?provider=anthropic&model=claude-x").content)
        recorded(thread, sent, model_id="claude-x")

        assert "Cache broken" not in pages.get(address).content.decode()
        add_messages(thread, text("One more"))
        assert "Cache broken" not in pages.get(address).content.decode()
        without = pages.get(f"{address}&off=anthropic-tool-id-charset").content.decode()

        assert "Cache broken" in without
        assert "messages[1]" in without

    def test_is_no_matter_of_cache_markers(self, pages: Client) -> None:
        thread = foreign_thread()
        address = f"/threads/{thread.id}/preview/?provider=anthropic&model=claude-x"
        sent = json.loads(pages.get(f"/threads/{thread.id}/preview/request/?provider=anthropic&model=claude-x").content)
        sent["messages"][0]["content"][0]["cache_control"] = {"type": "ephemeral"}
        recorded(thread, sent, model_id="claude-x")

        assert "Cache broken" not in pages.get(address).content.decode()


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
