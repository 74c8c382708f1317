import json
from datetime import timedelta
from typing import Any
from unittest.mock import ANY

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from memory.models import AuditEvent, Message, Run, Thread
from tests import make
from tests.api.callers import Caller, problem

FIELDS = [
    "id",
    "title",
    "resource_id",
    "agent_id",
    "metadata",
    "message_count",
    "byte_count",
    "last_activity_at",
    "last_provider",
    "last_model",
    "last_error",
    "created_at",
]


class TestThreadList:
    def test_shows_exactly_these_fields(self, caller: Caller) -> None:
        agent = make.make_agent()
        thread = make.make_thread(messages=2, title="Trains", agent=agent, metadata={"n": 2**70}, last_model="m")
        (item,) = caller.get("/threads")["items"]
        assert list(item) == FIELDS
        assert item == {
            "id": thread.id,
            "title": "Trains",
            "resource_id": "user-1",
            "agent_id": agent.id,
            "metadata": {"n": 2**70},
            "message_count": 2,
            "byte_count": thread.byte_count,
            "last_activity_at": _iso(thread.last_activity_at),
            "last_provider": "",
            "last_model": "m",
            "last_error": "",
            "created_at": _iso(thread.created_at),
        }

    def test_stands_by_newest_activity(self, caller: Caller) -> None:
        now = timezone.now()
        for name, age in (("old", 3), ("new", 1), ("middle", 2)):
            make.make_thread(id=name, last_activity_at=now - timedelta(hours=age))
        assert [item["id"] for item in caller.get("/threads")["items"]] == ["new", "middle", "old"]

    @pytest.mark.parametrize(
        ("query", "found"),
        [
            ({"resource_id": "user-1"}, {"plain", "claude"}),
            ({"provider": "anthropic"}, {"claude"}),
            ({"has_error": "true"}, {"broken"}),
            ({"has_error": "false"}, {"plain", "claude"}),
            ({"agent_id": "helper"}, {"broken"}),
            ({"agent_id": "absent"}, set()),
            ({"resource_id": "\x00"}, set()),
            ({"resource_id": "user-1", "provider": "anthropic"}, {"claude"}),
        ],
    )
    def test_is_filtered(self, caller: Caller, query: dict[str, str], found: set[str]) -> None:
        make.make_thread(id="plain")
        make.make_thread(id="claude", last_provider="anthropic")
        make.make_thread("user-2", id="broken", last_error="boom", agent=make.make_agent(id="helper"))
        assert {item["id"] for item in caller.get("/threads", **query)["items"]} == found

    def test_walks_every_row_once_while_others_are_added(self, caller: Caller) -> None:
        for i in range(7):
            make.make_thread(id=f"thread-{i}")
        seen: list[str] = []
        cursor: dict[str, str] = {}
        while True:
            page = caller.get("/threads", limit=2, **cursor)
            seen += [item["id"] for item in page["items"]]
            make.make_thread()
            if page["next_cursor"] is None:
                break
            cursor = {"cursor": page["next_cursor"]}
        assert seen == [f"thread-{i}" for i in reversed(range(7))]

    @pytest.mark.parametrize("cursor", ["x", "a.b", "\x00", "ä" * 500])
    def test_refuses_a_cursor_it_did_not_give_out(self, caller: Caller, cursor: str) -> None:
        problem(caller.send("GET", "/threads", cursor=cursor), 400, "bad_cursor", "cursor")

    def test_refuses_another_lists_cursor(self, caller: Caller) -> None:
        thread = make.make_thread(messages=3)
        cursor = caller.get(f"/threads/{thread.id}/messages", limit=1)["next_cursor"]
        problem(caller.send("GET", "/threads", cursor=cursor), 400, "bad_cursor", "cursor")

    @pytest.mark.parametrize("limit", ["0", "201", "-1", "x", "", "1.5", "9" * 5000])
    def test_refuses_a_limit_out_of_bounds(self, caller: Caller, limit: str) -> None:
        problem(caller.send("GET", "/threads", limit=limit), 422, "invalid_input", "limit")

    def test_takes_the_same_number_of_queries_with_more_rows(self, caller: Caller) -> None:
        make.make_thread(messages=1)
        caller.get("/threads")  # notes the use of the key
        with CaptureQueriesContext(connection) as few:
            caller.get("/threads")
        for _ in range(10):
            make.make_thread(messages=3)
        with CaptureQueriesContext(connection) as many:
            caller.get("/threads")
        assert len(few) == len(many) == 2


class TestNewThread:
    def test_is_stored_as_given(self, caller: Caller) -> None:
        make.make_agent(id="helper")
        body = {"id": "t 1?ä", "resource_id": "user-9", "title": "New", "metadata": {"a": [1]}, "agent_id": "helper"}
        made = caller.post("/threads", body)
        assert list(made) == FIELDS
        row = Thread.objects.get(id="t 1?ä")
        assert (row.resource_id, row.title, row.metadata, row.agent_id) == ("user-9", "New", {"a": [1]}, "helper")
        assert caller.get("/threads/t%201%3F%C3%A4") == made

    def test_gets_an_id(self, caller: Caller) -> None:
        made = caller.post("/threads", {"resource_id": "user-1"})
        assert Thread.objects.get().id == made["id"]

    @pytest.mark.parametrize(
        ("body", "field"),
        [
            ({}, "resource_id"),
            ({"resource_id": 5}, "resource_id"),
            ({"resource_id": "a\nb"}, "resource_id"),
            ({"resource_id": "x" * 256}, "resource_id"),
            ({"resource_id": "r", "id": ""}, "id"),
            ({"resource_id": "r", "id": "a/b"}, "id"),
            ({"resource_id": "r", "id": "x" * 129}, "id"),
            ({"resource_id": "r", "title": None}, "title"),
            ({"resource_id": "r", "title": "x" * 501}, "title"),
            ({"resource_id": "r", "metadata": []}, "metadata"),
            ({"resource_id": "r", "agent_id": "absent"}, "agent_id"),
            ({"resource_id": "r", "titel": "typo"}, "titel"),
            ([], "body"),
            ("text", "body"),
            (None, "body"),
        ],
    )
    def test_is_refused_with_the_place(self, caller: Caller, body: Any, field: str) -> None:
        body = b"null" if body is None else body
        problem(caller.send("POST", "/threads", body), 422, "invalid_input", field)
        assert not Thread.objects.exists()

    def test_conflicts_with_a_taken_id_and_leaves_that_one(self, caller: Caller, outsider: Caller) -> None:
        make.make_thread(id="taken", title="first")
        problem(caller.send("POST", "/threads", {"id": "taken", "resource_id": "user-1"}), 409, "id_taken")
        problem(outsider.send("POST", "/threads", {"id": "taken"}), 409, "id_taken")
        assert Thread.objects.get().title == "first"

    def test_mends_what_no_row_can_hold(self, caller: Caller) -> None:
        metadata = rb'{"k\u0000": "\udc00", "big": 123456789012345678901}'
        body = rb'{"resource_id": "r", "title": "a\ud800b", "metadata": ' + metadata + b"}"
        made = caller.post("/threads", body)
        assert made["title"] == "a\ufffdb"
        assert made["metadata"] == {"k\ufffd": "\ufffd", "big": 123456789012345678901}


class TestThreadChange:
    def test_replaces_only_what_is_given(self, caller: Caller) -> None:
        thread = make.make_thread(title="old", metadata={"a": 1, "b": 2}, messages=2)
        changed = caller.patch(f"/threads/{thread.id}", {"metadata": {"c": 3}})
        assert (changed["title"], changed["metadata"], changed["message_count"]) == ("old", {"c": 3}, 2)
        assert caller.get(f"/threads/{thread.id}") == changed

    def test_takes_the_agent_away(self, caller: Caller) -> None:
        thread = make.make_thread(agent=make.make_agent())
        assert caller.patch(f"/threads/{thread.id}", {"agent_id": None})["agent_id"] is None

    @pytest.mark.parametrize("body", [{"id": "other"}, {"resource_id": "other"}, {"message_count": 0}, {"title": 1}])
    def test_refuses_what_may_not_change(self, caller: Caller, body: Any) -> None:
        thread = make.make_thread(title="old")
        problem(caller.send("PATCH", f"/threads/{thread.id}", body), 422, "invalid_input", *body)
        thread.refresh_from_db()
        assert (thread.title, thread.resource_id) == ("old", "user-1")

    def test_saves_nothing_when_one_field_does_not_fit(self, caller: Caller) -> None:
        thread = make.make_thread(title="old")
        body = {"title": "new", "agent_id": "absent"}
        problem(caller.send("PATCH", f"/threads/{thread.id}", body), 422, "invalid_input", "agent_id")
        thread.refresh_from_db()
        assert thread.title == "old"


class TestThreadDeletion:
    def test_takes_everything_along_and_is_recorded(self, caller: Caller) -> None:
        thread = make.make_thread(messages=3)
        make.make_attempt(make.make_run(thread))
        response = caller.send("DELETE", f"/threads/{thread.id}")
        assert (response.status_code, response.content) == (204, b"")
        assert not Thread.objects.exists() and not Message.objects.exists() and not Run.objects.exists()
        assert AuditEvent.objects.get(action="thread.deleted").target_id == thread.id
        problem(caller.send("DELETE", f"/threads/{thread.id}"), 404, "not_found")

    def test_waits_for_an_active_run(self, caller: Caller) -> None:
        thread = make.make_thread(messages=1)
        make.make_run(thread, status="running", lease_until=timezone.now() + timedelta(minutes=1))
        problem(caller.send("DELETE", f"/threads/{thread.id}"), 409, "run_active")
        assert Message.objects.count() == 1


class TestScoping:
    def test_shows_a_resources_key_its_own_only(self, outsider: Caller) -> None:
        make.make_thread(id="foreign")
        make.make_thread("somebody-else", id="own")
        assert [item["id"] for item in outsider.get("/threads")["items"]] == ["own"]
        assert outsider.get("/threads", resource_id="user-1")["items"] == []
        assert outsider.get("/threads/own")["id"] == "own"

    @pytest.mark.parametrize(("method", "body"), [("GET", None), ("PATCH", {"title": "mine"}), ("DELETE", None)])
    def test_makes_foreign_and_absent_look_alike(self, outsider: Caller, method: str, body: Any) -> None:
        make.make_thread(id="foreign", title="theirs")
        foreign = problem(outsider.send(method, "/threads/foreign", body), 404, "not_found")
        absent = problem(outsider.send(method, "/threads/absent", body), 404, "not_found")
        assert {**foreign, "request_id": ""} == {**absent, "request_id": ""}
        assert Thread.objects.get().title == "theirs"

    def test_refuses_to_make_one_for_another_resource(self, outsider: Caller) -> None:
        problem(outsider.send("POST", "/threads", {"resource_id": "user-1"}), 403, "forbidden")
        assert not Thread.objects.exists()

    def test_makes_one_for_the_keys_own_resource_by_default(self, outsider: Caller) -> None:
        assert outsider.post("/threads", {})["resource_id"] == "somebody-else"


def _iso(at: Any) -> str:
    return str(at.isoformat().replace("+00:00", "Z"))


class TestThreadFilters:
    def test_by_time_of_activity(self, caller: Caller) -> None:
        now = timezone.now()
        for hours in (1, 2, 3):
            make.make_thread(id=f"t{hours}", last_activity_at=now - timedelta(hours=hours))

        def found(**query: str) -> list[str]:
            return [item["id"] for item in caller.get("/threads", **query)["items"]]

        two_ago = (now - timedelta(hours=2)).isoformat()
        assert found(active_since=two_ago) == ["t1", "t2"]
        assert found(active_before=two_ago) == ["t3"]
        assert found(active_since=two_ago, active_before=now.isoformat()) == ["t1", "t2"]
        # Without a zone it is UTC.
        assert found(active_since=two_ago.removesuffix("+00:00")) == ["t1", "t2"]

    @pytest.mark.parametrize("at", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "yesterday"])
    def test_by_a_time_that_can_not_be_are_refused(self, caller: Caller, at: str) -> None:
        problem(caller.send("GET", "/threads", active_since=at), 422, "invalid_input", "active_since")

    @pytest.mark.parametrize(
        ("wanted", "found"),
        [
            ({"channel": "web"}, {"a", "b"}),
            ({"channel": "web", "vip": True}, {"a"}),
            ({"n": 3}, {"b"}),
            ({"n": 3.5}, {"c"}),
            ({"n": "3"}, set()),
            ({"vip": False}, set()),
            ({"absent": "x"}, set()),
            ({}, {"a", "b", "c"}),
        ],
    )
    def test_by_metadata_compare_whole_values(self, caller: Caller, wanted: dict[str, Any], found: set[str]) -> None:
        make.make_thread(id="a", metadata={"channel": "web", "vip": True})
        make.make_thread(id="b", metadata={"channel": "web", "n": 3})
        make.make_thread(id="c", metadata={"channel": "phone", "n": 3.5})
        items = caller.get("/threads", metadata=json.dumps(wanted))["items"]
        assert {item["id"] for item in items} == found

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "{",
            "[]",
            '{"a": null}',
            '{"a": {}}',
            '{"a__b": 1, "a-b": 2}',
            '{"": 1}',
            '{"a": 1e400}',
            '{"a": "\\u0000"}',
            json.dumps({f"k{i}": 1 for i in range(11)}),
            json.dumps({"a": 2**60}),
        ],
    )
    def test_by_other_metadata_are_refused(self, caller: Caller, text: str) -> None:
        problem(caller.send("GET", "/threads", metadata=text), 422, "invalid_input", "metadata")

    def test_count_only_when_asked(self, caller: Caller) -> None:
        for owner in ("ada", "ada", "bob"):
            make.make_thread(owner)
        assert "total" not in caller.get("/threads", limit=1)
        for how in ("exact", "estimate"):
            assert caller.get("/threads", limit=1, count=how, resource_id="ada")["total"] >= 1
        assert caller.get("/threads", limit=1, count="exact", resource_id="ada")["total"] == 2
        first = caller.get("/threads", limit=1, count="exact")
        assert caller.get("/threads", limit=1, count="exact", cursor=first["next_cursor"])["total"] == 3
        assert Caller(make.make_key("bob")).get("/threads", count="exact")["total"] == 1

    def test_give_the_fields_that_were_asked_for(self, caller: Caller) -> None:
        thread = make.make_thread(title="Trains")
        assert caller.get("/threads", fields="title, id")["items"] == [{"title": "Trains", "id": thread.id}]
        assert caller.get(f"/threads/{thread.id}", fields="id") == {"id": thread.id}
        for nonsense in ("title,nothing", ",", "sha256"):
            problem(caller.send("GET", "/threads", fields=nonsense), 422, "invalid_input", "fields")


class TestClone:
    def test_copies_messages_as_they_are_and_names_its_source(self, caller: Caller) -> None:
        thread = make.make_thread("ada", title="Trains", metadata={"channel": "web"}, messages=3)
        make.add_messages(thread, make.text("again", id="m"))
        make.add_messages(thread, make.text("better", id="m"))
        make.make_run(thread)
        made = caller.post(f"/threads/{thread.id}/clone", {"id": "copy", "metadata": {"why": "test"}})
        thread.refresh_from_db()
        assert (made["id"], made["resource_id"], made["title"]) == ("copy", "ada", "Trains")
        assert made["metadata"] == {"channel": "web", "why": "test", "cloned_from": thread.id}
        assert (made["message_count"], made["byte_count"]) == (thread.message_count, thread.byte_count) == (4, ANY)
        source, copy = (caller.get(f"/threads/{id_}/messages")["items"] for id_ in (thread.id, "copy"))
        for one, other in zip(source, copy, strict=True):
            assert {**one, "threadId": "copy", "version": 1} == other
        assert caller.get("/threads/copy/messages/m/versions")["items"] == []
        assert caller.get("/runs", thread_id="copy")["items"] == []
        # Both go on by themselves.
        caller.post("/threads/copy/messages", {"messages": [{"role": "user", "content": "on"}]})
        assert caller.get(f"/threads/{thread.id}")["message_count"] == 4
        assert caller.get("/threads/copy/messages")["items"][-1]["seq"] == 5

    def test_ends_where_it_is_told_to(self, caller: Caller) -> None:
        thread = make.make_thread(messages=5)
        third = caller.get(f"/threads/{thread.id}/messages")["items"][2]
        made = caller.post(f"/threads/{thread.id}/clone", {"up_to": third["id"], "last": 2})
        seqs = [(item["seq"], item["content"]) for item in caller.get(f"/threads/{made['id']}/messages")["items"]]
        assert [seq for seq, _ in seqs] == [1, 2]
        assert seqs[-1][1] == third["content"]
        assert made["message_count"] == 2
        body = {"up_to": "absent"}
        problem(caller.send("POST", f"/threads/{thread.id}/clone", body), 404, "not_found")

    def test_never_leaves_its_resource_by_a_key_of_one(self, caller: Caller, outsider: Caller) -> None:
        thread = make.make_thread("ada", messages=1)
        problem(outsider.send("POST", f"/threads/{thread.id}/clone", {}), 404, "not_found")
        ada = Caller(make.make_key("ada"))
        problem(ada.send("POST", f"/threads/{thread.id}/clone", {"resource_id": "bob"}), 403, "forbidden")
        assert Thread.objects.count() == 1
        assert caller.post(f"/threads/{thread.id}/clone", {"resource_id": "bob"})["resource_id"] == "bob"

    def test_of_a_taken_id_copies_nothing(self, caller: Caller) -> None:
        thread = make.make_thread(messages=2, id="there")
        problem(caller.send("POST", "/threads/there/clone", {"id": "there"}), 409, "id_taken")
        assert Message.objects.filter(thread=thread).count() == Message.objects.count() == 2
