from datetime import timedelta
from typing import Any

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
