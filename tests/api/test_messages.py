from datetime import timedelta
from typing import Any

import msgspec
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from memory.models import AuditEvent, Message, MessageVersion, Thread
from tests import make
from tests.api.callers import Caller, problem

HUGE = 12345678901234567890123


class TestMessageList:
    def test_gives_the_newest_page_first_and_each_page_oldest_first(self, caller: Caller) -> None:
        thread = make.make_thread(messages=5)
        first = caller.get(f"/threads/{thread.id}/messages", limit=2)
        second = caller.get(f"/threads/{thread.id}/messages", limit=2, cursor=first["next_cursor"])
        third = caller.get(f"/threads/{thread.id}/messages", limit=2, cursor=second["next_cursor"])
        assert [[m["seq"] for m in page["items"]] for page in (first, second, third)] == [[4, 5], [2, 3], [1]]
        assert third["next_cursor"] is None

    def test_walks_every_row_once_while_others_are_added(self, caller: Caller) -> None:
        thread = make.make_thread(messages=7)
        seen: list[int] = []
        cursor: dict[str, str] = {}
        while True:
            page = caller.get(f"/threads/{thread.id}/messages", limit=3, **cursor)
            seen = [m["seq"] for m in page["items"]] + seen
            make.add_messages(thread, make.text("later"))
            if page["next_cursor"] is None:
                break
            cursor = {"cursor": page["next_cursor"]}
        assert seen == [1, 2, 3, 4, 5, 6, 7]

    def test_passes_the_stored_text_on(self, caller: Caller) -> None:
        thread = make.make_thread()
        make.add_messages(thread, make.text("hi", id="m/1", createdAt="2026-03-01T09:00:00Z"))
        text = '{"z": 1.50, "format":2,"parts" : [ ],"n":' + str(HUGE) + "}"
        Message.objects.update(content=text)
        response = caller.send("GET", f"/threads/{thread.id}/messages")
        assert f'"content":{text}'.encode() in response.content
        (item,) = msgspec.json.decode(response.content)["items"]
        assert {**item, "content": None} == {
            "id": "m/1",
            "role": "user",
            "createdAt": "2026-03-01T09:00:00.000Z",
            "threadId": thread.id,
            "resourceId": "user-1",
            "type": "text",
            "content": None,
            "seq": 1,
            "version": 2,
        }

    @pytest.mark.parametrize("text", ["", "no json", '{"parts": [', "\ud7ff" * 10, '{"a":1}x'])
    def test_shows_an_unreadable_row_as_an_error_part(self, caller: Caller, text: str) -> None:
        thread = make.make_thread(messages=2)
        Message.objects.filter(seq=1).update(content=text)
        broken, whole = caller.get(f"/threads/{thread.id}/messages")["items"]
        assert broken["content"]["parts"][0]["type"] == "data-unreadable"
        assert whole["content"]["parts"][0]["text"] == "message 1"

    def test_takes_the_same_number_of_queries_with_more_rows(self, caller: Caller) -> None:
        thread = make.make_thread(messages=1)
        caller.get(f"/threads/{thread.id}/messages")
        with CaptureQueriesContext(connection) as few:
            caller.get(f"/threads/{thread.id}/messages")
        make.add_messages(thread, *(make.text("more") for _ in range(30)))
        with CaptureQueriesContext(connection) as many:
            caller.get(f"/threads/{thread.id}/messages")
        assert len(few) == len(many) == 3

    @pytest.mark.parametrize(
        ("query", "status", "code"), [("limit=0", 422, "invalid_input"), ("cursor=x", 400, "bad_cursor")]
    )
    def test_refuses_odd_pages(self, caller: Caller, query: str, status: int, code: str) -> None:
        thread = make.make_thread()
        problem(caller.send("GET", f"/threads/{thread.id}/messages?{query}"), status, code, query.partition("=")[0])


class TestNewMessages:
    def test_are_stored_as_they_came(self, caller: Caller) -> None:
        thread = make.make_thread()
        content = {"format": 2, "parts": [{"type": "text", "text": "hi", "extra": HUGE}], "z": 1, "a": 2}
        sent = {"id": "m 1", "role": "user", "createdAt": "2026-03-01T09:00:00.123Z", "type": "v2", "content": content}
        answer = caller.post(f"/threads/{thread.id}/messages", {"messages": [sent]})
        assert answer == {"items": [{"id": "m 1", "seq": 1, "version": 1}]}
        assert Message.objects.get().content == msgspec.json.encode(content).decode()
        read = caller.get(f"/threads/{thread.id}/messages/m%201")
        assert {name: read[name] for name in sent} == sent

    def test_take_the_prompt_form(self, caller: Caller) -> None:
        thread = make.make_thread()
        call = {"type": "tool-call", "toolCallId": "c", "toolName": "t", "input": {"n": HUGE}}
        result = {"type": "tool-result", "toolCallId": "c", "toolName": "t", "output": {"type": "text", "value": "21"}}
        messages = [
            {"role": "user", "content": "hi", "id": "first"},
            {"role": "assistant", "content": [{"type": "text", "text": "well"}, call]},
            {"role": "tool", "content": [result]},
            make.text("stored form", id="last"),
        ]
        items = caller.post(f"/threads/{thread.id}/messages", {"messages": messages})["items"]
        assert [item["seq"] for item in items] == [1, 2, 3]
        stored = caller.get(f"/threads/{thread.id}/messages")["items"]
        assert [m["role"] for m in stored] == ["user", "assistant", "user"]
        assert stored[0]["id"] == "first" or items[0]["id"] == stored[0]["id"]
        assert stored[0]["content"]["parts"] == [{"type": "text", "text": "hi"}]
        invocation = stored[1]["content"]["parts"][1]["toolInvocation"]
        assert (invocation["state"], invocation["result"], invocation["args"]) == ("result", "21", {"n": HUGE})
        assert stored[2]["id"] == "last"

    def test_keep_ids_and_times_of_the_prompt_form(self, caller: Caller) -> None:
        thread = make.make_thread()
        message = {"id": "mine", "role": "user", "content": "hi", "createdAt": "2026-03-01T09:00:00.000Z"}
        assert caller.post(f"/threads/{thread.id}/messages", {"messages": [message]})["items"][0]["id"] == "mine"
        assert caller.get(f"/threads/{thread.id}/messages/mine")["createdAt"] == message["createdAt"]

    def test_are_mended_with_a_note(self, caller: Caller) -> None:
        thread = make.make_thread()
        content = rb'{"parts": [{"type": "text", "text": "a\ud83d\u0000"}]}'
        body = rb'{"messages": [{"id": "m", "role": "user", "content": ' + content + b"}]}"
        caller.post(f"/threads/{thread.id}/messages", body)
        row = Message.objects.get()
        assert msgspec.json.decode(row.content)["parts"][0]["text"] == "a\ufffd\ufffd"
        assert "surrogate" in row.reason

    def test_hold_objects_as_arguments(self, caller: Caller) -> None:
        thread = make.make_thread()
        call = make.tool_call("c1", "call")
        call["toolInvocation"]["args"] = "{broken"
        body = {"messages": [{"id": "m", "role": "assistant", "content": {"format": 2, "parts": [call]}}]}
        caller.post(f"/threads/{thread.id}/messages", body)
        caller.post(f"/threads/{thread.id}/messages", body)  # sent again, it is the same
        invocation = msgspec.json.decode(Message.objects.get().content)["parts"][0]["toolInvocation"]
        assert (invocation["args"], invocation["rawInput"]) == ({"_raw": "{broken"}, "{broken")

    def test_may_be_sent_again(self, caller: Caller) -> None:
        thread = make.make_thread()
        body = {"messages": [make.text("one", id="m1"), make.text("two", id="m2")]}
        first = caller.post(f"/threads/{thread.id}/messages", body)
        assert caller.post(f"/threads/{thread.id}/messages", body) == first
        assert Message.objects.count() == 2
        assert not MessageVersion.objects.exists()

    def test_conflict_with_another_text_of_their_id(self, caller: Caller) -> None:
        thread = make.make_thread()
        make.add_messages(thread, make.text("one", id="m1"))
        before = Thread.objects.values().get()
        body = {"messages": [make.text("new", id="m0"), make.text("other", id="m1")]}
        problem(caller.send("POST", f"/threads/{thread.id}/messages", body), 409, "message_exists")
        assert Message.objects.count() == 1
        assert Thread.objects.values().get() == before

    def test_have_ids_of_their_thread_only(self, caller: Caller) -> None:
        for thread in (make.make_thread(), make.make_thread("user-2")):
            caller.post(f"/threads/{thread.id}/messages", {"messages": [make.text(thread.id, id="same")]})
        assert Message.objects.filter(message_id="same").count() == 2

    @pytest.mark.parametrize(
        ("bad", "field"),
        [
            ({"role": "user", "content": {"parts": {}}}, "messages[1].content.parts"),
            ({"role": "user", "content": {"parts": [5]}}, "messages[1].content.parts[0]"),
            ({"role": "user", "content": {}}, "messages[1].content.parts"),
            ({"role": "user", "content": None}, "messages[1].content"),
            ({"role": "user"}, "messages[1].content"),
            ({"role": "robot", "content": {"parts": []}}, "messages[1].role"),
            ({"content": "hi"}, "messages[1].role"),
            ({"role": "system", "content": "be kind"}, "messages[1].role"),
            ({"role": "user", "content": 7}, "messages[1].content"),
            ({"role": "user", "content": [7]}, "messages[1].content[0]"),
            ({"role": "user", "content": [{"type": "text", "text": 7}]}, "messages[1].content[0].text"),
            ({"role": "user", "content": [{"type": "tool-call"}]}, "messages[1].content[0]"),
            (
                {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "c", "output": 1}]},
                "messages[1].content[0]",
            ),
            ({"role": "tool", "content": {"parts": []}}, "messages[1].content"),
            ({"role": "user", "content": [{"type": "hologram"}]}, "messages[1].content[0].type"),
            ({"role": "user", "content": "hi", "id": 5}, "messages[1].id"),
            ({"role": "user", "content": {"parts": []}, "id": "a\u0007"}, "messages[1].id"),
            ({"role": "user", "content": {"parts": []}, "createdAt": "yesterday"}, "messages[1].createdAt"),
            ({"role": "user", "content": {"parts": []}, "type": 5}, "messages[1].type"),
            ({"role": "user", "content": {"parts": []}, "id": "m0"}, "messages[1].id"),
            (5, "messages[1]"),
            (None, "messages[1]"),
        ],
    )
    def test_are_refused_with_the_place_and_none_is_saved(self, caller: Caller, bad: Any, field: str) -> None:
        thread = make.make_thread()
        body = {"messages": [make.text("fine", id="m0"), bad]}
        problem(caller.send("POST", f"/threads/{thread.id}/messages", body), 422, "invalid_input", field)
        assert not Message.objects.exists()
        assert Thread.objects.get().message_count == 0

    @pytest.mark.parametrize(("body", "field"), [({}, "messages"), ({"messages": []}, "messages"), ([], "body")])
    def test_must_be_there(self, caller: Caller, body: Any, field: str) -> None:
        thread = make.make_thread()
        problem(caller.send("POST", f"/threads/{thread.id}/messages", body), 422, "invalid_input", field)

    def test_may_be_very_many(self, caller: Caller) -> None:
        thread = make.make_thread()
        messages = [make.text("x", id=f"m{i}") for i in range(1200)]
        items = caller.post(f"/threads/{thread.id}/messages", {"messages": messages})["items"]
        assert [item["id"] for item in items] == [f"m{i}" for i in range(1200)]
        assert Thread.objects.get().message_count == 1200


class TestVersions:
    @pytest.fixture
    def changed(self, caller: Caller) -> Thread:
        thread = make.make_thread()
        make.add_messages(thread, make.text("first", id="m"))
        for text in ("second", "third"):
            make.add_messages(thread, make.text(text, id="m"))
        return thread

    def test_are_listed_newest_first(self, caller: Caller, changed: Thread) -> None:
        page = caller.get(f"/threads/{changed.id}/messages/m/versions", limit=1)
        assert [item["version"] for item in page["items"]] == [2]
        rest = caller.get(f"/threads/{changed.id}/messages/m/versions", limit=1, cursor=page["next_cursor"])
        assert [item["version"] for item in rest["items"]] == [1]
        assert rest["next_cursor"] is None

    @pytest.mark.parametrize(("version", "text"), [(1, "first"), (2, "second"), (3, "third"), (None, "third")])
    def test_can_be_read(self, caller: Caller, changed: Thread, version: int | None, text: str) -> None:
        query = {} if version is None else {"version": version}
        message = caller.get(f"/threads/{changed.id}/messages/m", **query)
        assert message["content"]["parts"][0]["text"] == text
        assert message["version"] == (version or 3)

    @pytest.mark.parametrize("version", [0, 4, -1, 10**30])
    def test_that_never_were_are_absent(self, caller: Caller, changed: Thread, version: int) -> None:
        problem(caller.send("GET", f"/threads/{changed.id}/messages/m", version=version), 404, "not_found")


class TestScoping:
    @pytest.mark.parametrize(
        ("method", "path", "body"),
        [
            ("GET", "", None),
            ("POST", "", {"messages": [{"role": "user", "content": "hi"}]}),
            ("GET", "/m", None),
            ("GET", "/m/versions", None),
        ],
    )
    def test_makes_foreign_and_absent_look_alike(self, outsider: Caller, method: str, path: str, body: Any) -> None:
        foreign = make.make_thread(id="foreign")
        make.add_messages(foreign, make.text("secret", id="m"))
        seen = problem(outsider.send(method, f"/threads/foreign/messages{path}", body), 404, "not_found")
        absent = problem(outsider.send(method, f"/threads/absent/messages{path}", body), 404, "not_found")
        assert {**seen, "request_id": ""} == {**absent, "request_id": ""}
        assert Message.objects.count() == 1

    def test_keeps_a_message_to_its_own_thread(self, caller: Caller) -> None:
        make.add_messages(make.make_thread(id="one"), make.text("hi", id="m"))
        make.make_thread(id="two")
        problem(caller.send("GET", "/threads/two/messages/m"), 404, "not_found")


class TestMessagePlaces:
    def seqs(self, caller: Caller, **query: Any) -> list[int]:
        return [item["seq"] for item in caller.get("/threads/t/messages", **query)["items"]]

    def test_are_before_after_and_around_a_message(self, caller: Caller) -> None:
        make.make_thread(id="t", messages=9)
        assert self.seqs(caller, before=4, limit=2) == [2, 3]
        assert self.seqs(caller, after=4, limit=2) == [5, 6]
        assert self.seqs(caller, around=5, limit=5) == [3, 4, 5, 6, 7]
        assert self.seqs(caller, around=1, limit=4) == [1, 2, 3, 4]
        assert self.seqs(caller, around=9, limit=4) == [6, 7, 8, 9]
        assert self.seqs(caller, around=99, limit=3) == [7, 8, 9]
        assert self.seqs(caller, before=0) == []

    def test_go_on_the_way_they_began(self, caller: Caller) -> None:
        make.make_thread(id="t", messages=6)
        for query, pages in (({"after": 1}, [[2, 3], [4, 5], [6]]), ({"before": 6}, [[4, 5], [2, 3], [1]])):
            seen, asked = [], {**query, "limit": 2}
            while True:
                page = caller.get("/threads/t/messages", **asked)
                seen.append([item["seq"] for item in page["items"]])
                if page["next_cursor"] is None:
                    break
                asked = {"cursor": page["next_cursor"], "limit": 2}
            assert seen == pages

    def test_are_one_at_a_time(self, caller: Caller) -> None:
        make.make_thread(id="t")
        response = caller.send("GET", "/threads/t/messages", before=1, after=2)
        problem(response, 422, "invalid_input", "cursor")

    def test_come_without_bodies_where_fields_leave_them_out(self, caller: Caller) -> None:
        make.make_thread(id="t", messages=2)
        with CaptureQueriesContext(connection) as captured:
            page = caller.get("/threads/t/messages", fields="id,role", count="exact")
        assert [list(item) for item in page["items"]] == [["id", "role"]] * 2
        assert page["total"] == 2
        (query,) = [query["sql"] for query in captured if 'FROM "memory_message"' in query["sql"]]
        assert '"content"' not in query

    def test_of_foreign_threads_are_none(self, outsider: Caller) -> None:
        make.make_thread(id="t", messages=2)
        for method, path, body in (
            ("DELETE", "/threads/t/messages/m", None),
            ("POST", "/threads/t/messages/m/revert", {"version": 1}),
        ):
            problem(outsider.send(method, path, body), 404, "not_found")


class TestDeletedMessage:
    def test_is_gone_with_its_versions_and_leaves_a_gap(self, caller: Caller) -> None:
        thread = make.make_thread(id="t", messages=2)
        for text in ("one", "two"):
            make.add_messages(thread, make.text(text, id="m"))
        make.add_messages(thread, make.text("last"))
        assert caller.send("DELETE", "/threads/t/messages/m").status_code == 204
        problem(caller.send("DELETE", "/threads/t/messages/m"), 404, "not_found")
        assert [item["seq"] for item in caller.get("/threads/t/messages")["items"]] == [1, 2, 4]
        assert not MessageVersion.objects.exists()
        thread.refresh_from_db()
        sizes = Message.objects.values_list("byte_count", flat=True)
        assert (thread.message_count, thread.byte_count, thread.last_seq) == (3, sum(sizes), 4)
        caller.post("/threads/t/messages", {"messages": [{"role": "user", "content": "on"}]})
        assert caller.get("/threads/t/messages")["items"][-1]["seq"] == 5
        assert AuditEvent.objects.filter(action="message.deleted", target_id="t").count() == 1

    def test_stays_while_a_run_is_at_work(self, caller: Caller) -> None:
        thread = make.make_thread(id="t")
        make.add_messages(thread, make.text("one", id="m"))
        make.make_run(thread, status="running", lease_until=timezone.now() + timedelta(minutes=1))
        problem(caller.send("DELETE", "/threads/t/messages/m"), 409, "run_active")
        assert Message.objects.exists()


class TestRevertedMessage:
    def test_has_its_earlier_text_as_a_new_version(self, caller: Caller) -> None:
        thread = make.make_thread(id="t")
        for text in ("one", "two"):
            make.add_messages(thread, make.text(text, id="m"))
        assert caller.post("/threads/t/messages/m/revert", {"version": 1}, status=200)["version"] == 3
        assert caller.get("/threads/t/messages/m")["content"]["parts"][0]["text"] == "one"
        assert [item["version"] for item in caller.get("/threads/t/messages/m/versions")["items"]] == [2, 1]
        problem(caller.send("POST", "/threads/t/messages/m/revert", {"version": 9}), 404, "not_found")
