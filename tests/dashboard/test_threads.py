import copy
from typing import Any

import pytest
from django.test import Client

from memory.messages.values import write_json
from memory.models import AuditEvent, Message, Thread
from memory.store import DjangoStorage
from tests.make import add_messages, make_run, make_thread, message, text, tool_call

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def page(pages: Client, address: str, **headers: str) -> str:
    answer = pages.get(address, headers=headers or None)
    assert answer.status_code == 200
    return answer.content.decode()


class TestThreadList:
    def test_says_what_to_do_when_it_is_empty(self, pages: Client) -> None:
        shown = page(pages, "/threads/")

        assert "No threads yet" in shown
        assert "curl http://testserver/api/threads" in shown

    def test_costs_the_same_number_of_queries_with_more_rows(
        self, pages: Client, django_assert_num_queries: Any
    ) -> None:
        make_thread(messages=2)
        page(pages, "/threads/")
        with django_assert_num_queries(4):
            page(pages, "/threads/")
        for _ in range(5):
            make_thread(messages=2)
        with django_assert_num_queries(4):
            page(pages, "/threads/")

    def test_shows_every_thread_once_over_its_pages(self, pages: Client) -> None:
        titles = [f"thread number {i:02}" for i in range(90)]
        for title in titles:
            make_thread(title=title)

        seen: list[str] = []
        address = "/threads/"
        for _ in range(3):
            answer = pages.get(address)
            seen += [title for title in titles if title in answer.content.decode()]
            address = f"/threads/{answer.context['older']}"

        assert sorted(seen) == titles

    def test_filters_by_owner_provider_and_error(self, pages: Client) -> None:
        make_thread("u-1", title="title-1")
        make_thread("u-2", title="title-2", last_provider="anthropic")
        make_thread("u-2", title="title-3", last_error="rate-limit: slow down")

        for query, titles in {
            "resource=u-2": "23",
            "provider=anthropic": "2",
            "error=1": "3",
            "resource=u": "",
        }.items():
            shown = page(pages, f"/threads/?{query}")
            assert [n for n in "123" if f"title-{n}" in shown] == list(titles)

    def test_answers_htmx_with_the_rows_only(self, pages: Client) -> None:
        make_thread(title="a thread")

        shown = page(pages, "/threads/", **{"HX-Request": "true"})

        assert shown.lstrip().startswith('<section id="threads-rows"')
        assert "<html" not in shown
        boosted = page(pages, "/threads/", **{"HX-Request": "true", "HX-Boosted": "true"})
        assert "<html" in boosted

    def test_refuses_a_cursor_it_did_not_give_out(self, pages: Client) -> None:
        answer = pages.get("/threads/?cursor=made-up")

        assert answer.status_code == 400
        assert "cursor" in answer.content.decode()


class TestThread:
    def test_never_lets_content_become_markup(self, pages: Client) -> None:
        evil = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"
        thread = make_thread(evil, title=evil, metadata={evil: evil}, last_error=evil)
        add_messages(
            thread,
            text(evil),
            message(
                {"type": "text", "text": evil},
                {"type": "reasoning", "reasoning": evil},
                tool_call(evil, state="result", toolName=evil, args={evil: evil}, result=evil),
                tool_call("c2", state="output-error", toolName="t", errorText=evil),
                tool_call("c3", state=evil),
                {"type": "file", "mimeType": evil, "data": evil, "filename": evil},
                {"type": "file", "mimeType": "image/png", "data": 'data:image/png;base64,"><script>alert(1)</script>'},
                {"type": "source", "source": {"url": "javascript:alert(1)", "title": evil}},
                {"type": f"data-{evil}", "data": evil},
                {"type": evil},
                metadata={"provider": "anthropic", "modelId": evil},
            ),
        )
        make_run(thread, status="failed", error_class=evil[:60], error_message=evil)
        Message.objects.filter(thread=thread, seq=1).update(content=f"{{{evil}")

        for address in ("/threads/", f"/threads/{thread.id}/", f"/threads/{thread.id}/messages/1/versions/", "/runs/"):
            shown = page(pages, address)
            assert "<script>alert" not in shown
            assert "<img src=x" not in shown
            assert 'href="javascript:' not in shown

    def test_lets_every_text_read_in_its_own_direction(self, pages: Client) -> None:
        thread = make_thread(title="طلب استرداد")
        add_messages(thread, text("أريد استرداد المبلغ"), text("hidden \u202egnp.exe and \x07"))

        shown = page(pages, f"/threads/{thread.id}/")

        assert "<bdi>طلب استرداد</bdi>" in shown
        assert '<p dir="auto">أريد استرداد المبلغ</p>' in shown
        assert "\u202e" not in shown
        assert "U+202E" in shown
        assert "U+0007" in shown

    def test_shows_a_call_with_its_result_or_why_there_is_none(self, pages: Client) -> None:
        thread = make_thread()
        add_messages(
            thread,
            message(
                tool_call("c1", state="result", result={"dep": "08:05"}),
                tool_call("c2", state="output-error", errorText="no train today"),
                tool_call("c3", state="output-denied", approval={"id": "a", "approved": False, "reason": "too far"}),
                tool_call("c4", state="call"),
            ),
        )
        add_messages(thread, text("and now?"), message(tool_call("c5", state="approval-requested")))

        shown = page(pages, f"/threads/{thread.id}/")

        for words in ("08:05", "no train today", "denied", "too far", "no result recorded", "waits for approval"):
            assert words in shown

    def test_of_a_result_of_20_mb_stays_small_and_leads_to_the_whole(self, pages: Client) -> None:
        thread = make_thread()
        whole = "x" * 20_000_000
        add_messages(thread, message(tool_call(state="result", result=whole)))

        answer = pages.get(f"/threads/{thread.id}/")

        assert len(answer.content) < 200_000
        assert "20 MB" in answer.content.decode()
        part = f"/threads/{thread.id}/messages/1/parts/0/?of=result"
        assert f'href="{part}"' in answer.content.decode()
        file = pages.get(part)
        assert file.content.decode() == whole
        assert file["Content-Type"] == "text/plain; charset=utf-8"
        assert file["X-Content-Type-Options"] == "nosniff"
        assert "sandbox" in file["Content-Security-Policy"]

    @pytest.mark.parametrize("count", [1, 60])
    def test_stays_small_whatever_a_message_is_made_of(self, pages: Client, count: int) -> None:
        thread = make_thread()
        nested: Any = "deep"
        for _ in range(200):
            nested = [nested]
        parts = [
            {"type": "text", "text": "字" * 5000},
            tool_call(args={"n": nested}),
            {"type": "data-x", "data": nested},
        ]
        add_messages(thread, message(*parts * count), message(*parts * count))

        shown = page(pages, f"/threads/{thread.id}/")

        assert len(shown.encode()) < 500_000
        if count > 1:
            assert "140 more parts not shown" in shown

    def test_shows_an_image_only_from_its_own_data(self, pages: Client) -> None:
        thread = make_thread()
        add_messages(
            thread,
            message(
                {"type": "file", "mimeType": "image/png", "data": PNG},
                {"type": "file", "mimeType": "image/png", "data": "https://example.invalid/spy.png"},
                {"type": "file", "mimeType": "image/svg+xml", "data": f"data:image/svg+xml;base64,{PNG}"},
                role="user",
            ),
        )

        shown = page(pages, f"/threads/{thread.id}/")

        assert shown.count("<img") == 1
        assert f'src="data:image/png;base64,{PNG}"' in shown
        file = pages.get(f"/threads/{thread.id}/messages/1/parts/0/?of=file")
        assert file.content.startswith(b"\x89PNG")
        assert file["Content-Disposition"].startswith("attachment")
        assert file["Content-Type"] == "application/octet-stream"

    def test_shows_an_unreadable_row_as_a_card_and_the_rest_whole(self, pages: Client) -> None:
        thread = make_thread()
        add_messages(thread, text("before"), text("broken"), text("after"))
        Message.objects.filter(thread=thread, seq=2).update(content='{"parts": [')

        shown = page(pages, f"/threads/{thread.id}/")

        assert "This part can’t be shown" in shown
        assert "before" in shown
        assert "after" in shown
        assert pages.get(f"/threads/{thread.id}/messages/2/").content == b'{"parts": ['

    def test_says_from_where_on_another_model_answers(self, pages: Client) -> None:
        thread = make_thread()
        kimi = {"provider": "moonshot", "modelId": "kimi-k2"}
        claude = {"provider": "anthropic", "modelId": "claude-opus-4-6"}
        add_messages(
            thread,
            text("one", role="assistant"),
            message({"type": "text", "text": "two"}, metadata=kimi),
            message({"type": "text", "text": "three"}, metadata=claude),
        )

        shown = page(pages, f"/threads/{thread.id}/")

        assert shown.count("From here on") == 1
        assert shown.index("two") < shown.index("From here on") < shown.index("three")

    def test_is_paged_by_number_with_an_anchor_for_each_message(self, pages: Client) -> None:
        thread = make_thread(messages=100)

        newest = page(pages, f"/threads/{thread.id}/")
        assert 'id="m-100"' in newest
        assert 'id="m-61"' in newest
        assert 'id="m-60"' not in newest
        assert 'href="?before=61"' in newest
        earlier = page(pages, f"/threads/{thread.id}/?before=61")
        assert 'id="m-60"' in earlier
        assert 'id="m-61"' not in earlier
        assert pages.get(f"/threads/{thread.id}/?before=x").status_code == 400

    def test_costs_the_same_number_of_queries_with_more_rows(
        self, pages: Client, django_assert_num_queries: Any
    ) -> None:
        thread = make_thread(messages=3)
        with django_assert_num_queries(6):
            page(pages, f"/threads/{thread.id}/")
        add_messages(thread, *(text(f"more {i}") for i in range(30)))
        make_run(thread, status="failed")
        with django_assert_num_queries(6):
            page(pages, f"/threads/{thread.id}/")

    def test_shows_a_failed_run_between_the_messages_of_its_time(self, pages: Client) -> None:
        thread = make_thread()
        add_messages(thread, text("first words"), text("later words"))
        times = list(Message.objects.order_by("seq").values_list("created_at", flat=True))
        between = times[0] + (times[1] - times[0]) / 2
        make_run(thread, status="failed", error_message="went wrong", created_at=between, finished_at=between)
        make_run(thread, status="succeeded", id="run-fine")

        shown = page(pages, f"/threads/{thread.id}/")

        assert shown.index("first words") < shown.index("went wrong") < shown.index("later words")
        assert "run-fine" not in shown

    def test_that_is_absent_is_a_page_that_says_so(self, pages: Client) -> None:
        for thread_id in ("nope", "%00", "%ED%A0%80"):
            answer = pages.get(f"/threads/{thread_id}/")
            assert answer.status_code in (404, 400)
            assert "<h1>" in answer.content.decode()


class TestVersions:
    def repaired(self) -> Thread:
        thread = make_thread()
        add_messages(thread, text("the first text"))
        stored = copy.deepcopy(DjangoStorage().load_messages(thread.id, None, last=None))
        stored[0]["content"]["parts"][0]["text"] = "the second text"
        DjangoStorage(written_by="somebody").repair_messages(stored, rule="any-blank-text", reason="a good reason")
        return thread

    def test_show_what_changed_by_whom_and_why(self, pages: Client) -> None:
        thread = self.repaired()

        assert "Version 2 of #1" in page(pages, f"/threads/{thread.id}/")
        shown = page(pages, f"/threads/{thread.id}/messages/1/versions/")
        for words in ("somebody", "a good reason", "any-blank-text", "the first text", "the second text"):
            assert words in shown

    def test_can_be_brought_back_after_a_question(self, pages: Client) -> None:
        thread = self.repaired()
        address = f"/threads/{thread.id}/messages/1/versions/1/revert/"

        assert "Go back to version 1" in page(pages, address)
        assert "the second text" in Message.objects.get(thread=thread).content
        assert pages.post(address).status_code == 302
        row = Message.objects.get(thread=thread)
        assert "the first text" in row.content
        assert (row.version, row.written_by) == (3, "operator")
        assert pages.post(f"/threads/{thread.id}/messages/1/versions/7/revert/").status_code == 404


class TestForms:
    def test_rename_a_thread(self, pages: Client) -> None:
        thread = make_thread(title="old")

        assert pages.post(f"/threads/{thread.id}/rename/", {"title": " new 名 "}).status_code == 302
        assert Thread.objects.get(id=thread.id).title == "new 名"

    def test_say_beside_the_field_why_a_title_is_refused(self, pages: Client) -> None:
        thread = make_thread(title="old")

        answer = pages.post(f"/threads/{thread.id}/rename/", {"title": "x" * 501})

        assert answer.status_code == 422
        assert 'aria-invalid="true"' in answer.content.decode()
        assert Thread.objects.get(id=thread.id).title == "old"

    def test_delete_a_thread_only_after_a_question_with_counts(self, pages: Client) -> None:
        thread = make_thread(messages=3)
        make_run(thread)

        shown = page(pages, f"/threads/{thread.id}/delete/")
        assert "3 messages" in shown
        assert "1 runs" in shown
        assert Thread.objects.filter(id=thread.id).exists()
        assert pages.post(f"/threads/{thread.id}/delete/")["Location"] == "/threads/"
        assert not Thread.objects.filter(id=thread.id).exists()
        assert AuditEvent.objects.get(action="thread.deleted").actor == "operator"

    def test_are_refused_without_their_token(self, operator: Any) -> None:
        client = Client(enforce_csrf_checks=True)
        client.force_login(operator)
        thread = make_thread()

        answer = client.post(f"/threads/{thread.id}/delete/")

        assert answer.status_code == 403
        assert "too old" in answer.content.decode()
        assert Thread.objects.filter(id=thread.id).exists()


class TestPartFile:
    def test_is_not_found_where_there_is_none(self, pages: Client) -> None:
        thread = make_thread(messages=1)

        for address in ("messages/1/parts/9/", "messages/9/parts/0/", "messages/99999999999999999999/parts/0/"):
            assert pages.get(f"/threads/{thread.id}/{address}").status_code == 404

    def test_of_an_odd_part_is_its_json(self, pages: Client) -> None:
        thread = make_thread()
        odd = {"type": "hologram", "n": 2**70, "html": "<script>"}
        add_messages(thread, message(odd))

        file = pages.get(f"/threads/{thread.id}/messages/1/parts/0/")

        assert file.content.decode() == write_json(odd)
