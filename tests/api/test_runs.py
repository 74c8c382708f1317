import hashlib
import zlib
from datetime import timedelta

import msgspec
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from memory.models import Agent, Run
from memory.queries import RunItem
from memory.sandbox import Sandbox
from tests import make
from tests.api.callers import Caller, problem

HUGE = 12345678901234567890123


class TestRunList:
    def test_stands_by_newest_and_holds_no_bodies(self, caller: Caller) -> None:
        thread = make.make_thread()
        now = timezone.now()
        for name, age in (("old", 2), ("new", 1)):
            make.make_run(thread, id=name, created_at=now - timedelta(hours=age))
        items = caller.get("/runs")["items"]
        assert [item["id"] for item in items] == ["new", "old"]
        assert list(items[0]) == list(RunItem.__struct_fields__)

    @pytest.mark.parametrize(
        ("query", "found"),
        [
            ({"thread_id": "one"}, {"a"}),
            ({"status": "failed"}, {"b"}),
            ({"agent_id": "helper"}, {"b"}),
            ({"thread_id": "one", "status": "failed"}, set()),
            ({"status": "\x00"}, set()),
        ],
    )
    def test_is_filtered(self, caller: Caller, query: dict[str, str], found: set[str]) -> None:
        make.make_run(make.make_thread(id="one"), id="a")
        make.make_run(make.make_thread(id="two"), id="b", status="failed", agent=make.make_agent(id="helper"))
        assert {item["id"] for item in caller.get("/runs", **query)["items"]} == found

    def test_walks_every_row_once_while_others_are_added(self, caller: Caller) -> None:
        thread = make.make_thread()
        ids = [make.make_run(thread).id for _ in range(5)]
        seen: list[str] = []
        cursor: dict[str, str] = {}
        while True:
            page = caller.get("/runs", limit=2, **cursor)
            seen += [item["id"] for item in page["items"]]
            make.make_run(thread)
            if page["next_cursor"] is None:
                break
            cursor = {"cursor": page["next_cursor"]}
        assert seen == ids[::-1]

    def test_takes_the_same_number_of_queries_with_more_rows(self, caller: Caller) -> None:
        thread = make.make_thread()
        make.make_run(thread)
        caller.get("/runs")
        with CaptureQueriesContext(connection) as few:
            caller.get("/runs")
        for _ in range(10):
            make.make_attempt(make.make_run(thread))
        with CaptureQueriesContext(connection) as many:
            caller.get("/runs")
        assert len(few) == len(many) == 2

    def test_is_counted_only_where_that_is_asked_for(self, caller: Caller) -> None:
        for owner, status in (("ada", "failed"), ("ada", "succeeded"), ("bob", "failed")):
            make.make_run(make.make_thread(owner), status=status)
        assert "total" not in caller.get("/runs", limit=1)
        assert caller.get("/runs", limit=1, count="estimate", status="failed")["total"] >= 1
        assert caller.get("/runs", limit=1, count="exact", status="failed")["total"] == 2
        first = caller.get("/runs", limit=1, count="exact")
        assert caller.get("/runs", limit=1, count="exact", cursor=first["next_cursor"])["total"] == 3
        assert Caller(make.make_key("bob")).get("/runs", count="exact")["total"] == 1
        assert caller.send("GET", "/runs", count="about").status_code == 422

    def test_gives_the_fields_that_were_asked_for(self, caller: Caller) -> None:
        run = make.make_run(make.make_thread(), status="failed")
        assert caller.get("/runs", fields="status, id")["items"] == [{"status": "failed", "id": run.id}]
        for nonsense in ("status,nothing", ",", "input"):
            problem(caller.send("GET", "/runs", fields=nonsense), 422, "invalid_input", "fields")

    def test_refuses_odd_pages(self, caller: Caller) -> None:
        problem(caller.send("GET", "/runs", cursor="x"), 400, "bad_cursor", "cursor")
        problem(caller.send("GET", "/runs", limit="0"), 422, "invalid_input", "limit")


class TestRun:
    def test_shows_its_attempts_with_the_very_bytes(self, caller: Caller) -> None:
        run = make.make_run(make.make_thread(), input='[{"role": "user", "content": "hi"}]', settings='{"a": 1.50}')
        sent = b'{"model":"m", "n":' + str(HUGE).encode() + b"}"
        make.make_attempt(
            run,
            request_body=zlib.compress(sent),
            request_size=len(sent),
            request_sha256=hashlib.sha256(sent).hexdigest(),
            request_headers={"content-type": "application/json"},
            response_body=zlib.compress(b"<html>Bad gateway</html>"),
            response_size=24,
            response_headers={"server": "proxy"},
            status=502,
            decision="retry",
            delay_wanted_ms=1000.0,
            changes='[{"rule":"r"}]',
        )
        make.make_attempt(run, response_body=zlib.compress(b'{"ok":true}'), usage={"input_tokens": 3})
        response = caller.send("GET", f"/runs/{run.id}")
        assert b'"body":' + sent in response.content
        assert b'"settings":{"a": 1.50}' in response.content
        found = msgspec.json.decode(response.content)
        assert found["input"] == [{"role": "user", "content": "hi"}]
        first, second = found["attempts"]
        assert first["request"] == {
            "headers": {"content-type": "application/json"},
            "body": {"model": "m", "n": HUGE},
            "size_bytes": len(sent),
            "sha256": hashlib.sha256(sent).hexdigest(),
            "problem": "",
        }
        assert first["response"] == {
            "headers": {"server": "proxy"},
            "body": "<html>Bad gateway</html>",
            "size_bytes": 24,
        }
        assert (first["number"], first["status"], first["decision"], first["delay_wanted_ms"]) == (
            1,
            502,
            "retry",
            1000,
        )
        assert first["changes"] == [{"rule": "r"}]
        assert second["request"]["body"] is None
        assert second["response"]["body"] == {"ok": True}
        assert second["usage"] == {"input_tokens": 3}

    def test_of_a_real_turn_says_what_was_sent(self, caller: Caller, agent: Agent, sandbox: Sandbox) -> None:
        made = caller.post("/agents/plain/generate", {"messages": "hi", "resource_id": "user-1"}, status=200)
        found = caller.get(f"/runs/{made['run_id']}")
        (attempt,) = found["attempts"]
        (seen,) = sandbox.requests()
        assert attempt["request"]["body"] == seen["body"]
        assert (attempt["status"], attempt["decision"]) == (200, "answered")
        assert found["message_ids"] == made["message_ids"]
        assert "sandbox-takes-any-key" not in str(found)

    def test_takes_the_same_number_of_queries_with_more_attempts(self, caller: Caller) -> None:
        run = make.make_run(make.make_thread())
        make.make_attempt(run)
        caller.get(f"/runs/{run.id}")
        with CaptureQueriesContext(connection) as few:
            caller.get(f"/runs/{run.id}")
        for _ in range(8):
            make.make_attempt(run)
        with CaptureQueriesContext(connection) as many:
            caller.get(f"/runs/{run.id}")
        assert len(few) == len(many)

    def test_is_its_resources_alone(self, caller: Caller, outsider: Caller) -> None:
        run = make.make_run(make.make_thread())
        assert caller.get(f"/runs/{run.id}")["id"] == run.id
        foreign = problem(outsider.send("GET", f"/runs/{run.id}"), 404, "not_found")
        absent = problem(outsider.send("GET", "/runs/absent"), 404, "not_found")
        assert {**foreign, "request_id": ""} == {**absent, "request_id": ""}
        assert outsider.get("/runs")["items"] == []
        assert outsider.get("/runs", thread_id=run.thread_id)["items"] == []
        assert Run.objects.count() == 1


class TestBundle:
    def test_comes_as_a_file_without_keys(self, caller: Caller, agent: Agent, sandbox: Sandbox) -> None:
        made = caller.post("/agents/plain/generate", {"messages": "hi", "resource_id": "user-1"}, status=200)
        response = caller.send("GET", f"/runs/{made['run_id']}/bundle")
        assert response["Content-Disposition"] == f'attachment; filename="{made["run_id"]}.json"'
        found = msgspec.json.decode(response.content)
        assert (found["format"], found["version"], found["missing"]) == ("compat-admin-run", 1, [])
        assert found["agent"]["id"] == "plain"
        assert "user-1" not in response.content.decode()

    def test_is_its_resources_alone(self, outsider: Caller, nobody: Caller) -> None:
        run = make.make_run(make.make_thread())
        problem(outsider.send("GET", f"/runs/{run.id}/bundle"), 404, "not_found")
        assert nobody.send("GET", f"/runs/{run.id}/bundle").status_code == 401
