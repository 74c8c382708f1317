from pathlib import Path
from typing import Any

import msgspec
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memory.errors import InvalidInput
from memory.models import Agent, AuditEvent, Message, Provider, RuleSetting, Run, Thread
from memory.sandbox import Sandbox
from memory.services.keys import provider_key
from tests import make
from tests.api.callers import Caller, answer, problem

FIELDS = [
    "id",
    "name",
    "model",
    "instructions",
    "tools",
    "settings",
    "input_processors",
    "output_processors",
    "error_processors",
    "max_steps",
    "max_processor_retries",
    "model_max_retries",
    "fallback_models",
    "capture",
    "created_at",
    "updated_at",
    "worst_case",
]
WEATHER = {"name": "weather", "description": "How it is outside", "parameters": {"type": "object", "properties": {}}}


class TestAgents:
    def test_are_made_with_the_default_processors_written_out(self, caller: Caller) -> None:
        made = caller.post("/agents", {"name": "Travel help", "model": "anthropic/claude-sonnet-4-5"})
        assert list(made) == FIELDS
        assert [entry["id"] for entry in made["input_processors"]] == ["message-history", "provider-history-compat"]
        assert made["error_processors"] == []
        assert caller.get(f"/agents/{made['id']}") == made
        assert Agent.objects.get().id == made["id"]

    def test_keep_empty_lists_empty(self, caller: Caller) -> None:
        lists = {"input_processors": [], "output_processors": [], "error_processors": []}
        made = caller.post("/agents", {"name": "Bare", "model": "openai/gpt-4o", **lists, "tools": [WEATHER]})
        assert {name: made[name] for name in lists} == lists
        assert made["tools"] == [WEATHER]

    def test_are_changed_field_by_field(self, caller: Caller) -> None:
        made = caller.post("/agents", {"id": "a", "name": "Old", "model": "openai/gpt-4o", "instructions": "Be kind."})
        changed = caller.patch("/agents/a", {"name": "New", "max_steps": 9})
        expected = {**made, "name": "New", "max_steps": 9, "updated_at": changed["updated_at"]}
        assert changed == expected == caller.get("/agents/a")

    @pytest.mark.parametrize(
        ("body", "fields"),
        [
            ({}, ["name", "model"]),
            ({"name": "A", "model": "nothing"}, ["model"]),
            ({"name": "A", "model": "nowhere/model"}, ["provider"]),
            ({"name": "A", "model": 5}, ["model"]),
            ({"name": 5, "model": "openai/x"}, ["name"]),
            ({"name": "A", "model": "openai/x", "id": "a/b"}, ["id"]),
            ({"name": "A", "model": "openai/x", "tools": {}}, ["tools"]),
            ({"name": "A", "model": "openai/x", "settings": []}, ["settings"]),
            ({"name": "A", "model": "openai/x", "max_steps": 0}, ["max_steps"]),
            ({"name": "A", "model": "openai/x", "max_steps": 10**30}, ["max_steps"]),
            ({"name": "A", "model": "openai/x", "colour": "red"}, ["colour"]),
        ],
    )
    def test_are_refused_with_the_place(self, caller: Caller, body: Any, fields: list[str]) -> None:
        problem(caller.send("POST", "/agents", body), 422, "invalid_input", *fields)
        assert not Agent.objects.exists()

    @pytest.mark.parametrize("entry", ["unknown", {"id": "unknown"}, {"options": {}}, 5, None, []])
    def test_refuse_unknown_processors(self, caller: Caller, entry: Any) -> None:
        body = {"name": "A", "model": "openai/x", "input_processors": [entry]}
        response = caller.send("POST", "/agents", body)
        assert response.status_code == 422, response.content
        assert not Agent.objects.exists()

    def test_conflict_with_a_taken_id(self, caller: Caller) -> None:
        make.make_agent(id="taken", name="first")
        body = {"id": "taken", "name": "second", "model": "openai/x"}
        problem(caller.send("POST", "/agents", body), 409, "id_taken")
        assert Agent.objects.get().name == "first"

    def test_save_nothing_when_one_field_does_not_fit(self, caller: Caller) -> None:
        make.make_agent(id="a", name="old")
        problem(caller.send("PATCH", "/agents/a", {"name": "new", "max_steps": -1}), 422, "invalid_input", "max_steps")
        assert Agent.objects.get().name == "old"

    def test_are_listed_by_pages(self, caller: Caller) -> None:
        ids = {make.make_agent().id for _ in range(5)}
        seen: list[str] = []
        cursor: dict[str, str] = {}
        while True:
            page = caller.get("/agents", limit=2, **cursor)
            seen += [item["id"] for item in page["items"]]
            if page["next_cursor"] is None:
                break
            cursor = {"cursor": page["next_cursor"]}
        assert len(seen) == 5 and set(seen) == ids
        assert list(caller.get("/agents")["items"][0]) == FIELDS
        problem(caller.send("GET", "/agents", cursor="x"), 400, "bad_cursor", "cursor")

    def test_take_the_same_number_of_queries_when_there_are_more(self, caller: Caller) -> None:
        make.make_agent()
        caller.get("/agents")
        with CaptureQueriesContext(connection) as few:
            caller.get("/agents")
        for _ in range(10):
            make.make_agent()
        with CaptureQueriesContext(connection) as many:
            caller.get("/agents")
        assert len(few) == len(many)

    @pytest.mark.parametrize(
        ("method", "path"), [("GET", ""), ("PATCH", ""), ("POST", "/generate"), ("POST", "/prepare")]
    )
    def test_may_be_absent(self, caller: Caller, method: str, path: str) -> None:
        problem(caller.send(method, f"/agents/absent{path}", {"messages": "hi"}), 404, "not_found")


class TestProviders:
    def test_show_where_they_are_reached_and_whether_a_key_is_there(
        self, caller: Caller, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("A_KEY", "sk-very-secret")
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        Provider.objects.create(
            id="anthropic", protocol="anthropic-messages", base_url="https://proxy.test/v1", key_ref="env:A_KEY"
        )
        response = caller.send("GET", "/providers")
        items = {item["id"]: item for item in answer(response)["items"]}
        assert items["anthropic"] == {
            "id": "anthropic",
            "title": "Anthropic",
            "protocol": "anthropic-messages",
            "base_url": "https://proxy.test/v1",
            "key_ref": "env:A_KEY",
            "has_key": True,
            "headers": [],
            "is_own": True,
        }
        assert (items["openai"]["key_ref"], items["openai"]["has_key"]) == ("env:OPENAI_API_KEY", False)
        assert b"very-secret" not in response.content

    def test_never_show_a_key_that_stands_where_its_name_should(self, caller: Caller) -> None:
        Provider.objects.create(
            id="openai", protocol="openai-chat", base_url="https://x.test", key_ref="sk-very-secret"
        )
        response = caller.send("GET", "/providers")
        assert b"very-secret" not in response.content
        item = next(item for item in answer(response)["items"] if item["id"] == "openai")
        assert (item["key_ref"], item["has_key"]) == ("", False)


class TestGenerate:
    def test_answers_and_saves_the_turn(self, caller: Caller, agent: Agent, sandbox: Sandbox) -> None:
        body = {"messages": "Where does the train go?", "resource_id": "user-1"}
        made = caller.post("/agents/plain/generate", body, status=200)
        assert list(made) == [
            "run_id",
            "thread_id",
            "status",
            "text",
            "finish_reason",
            "tool_calls",
            "usage",
            "attempt_count",
            "message_ids",
        ]
        assert (made["status"], made["attempt_count"], made["tool_calls"]) == ("succeeded", 1, [])
        assert made["text"]
        stored = caller.get(f"/threads/{made['thread_id']}/messages")["items"]
        assert [m["role"] for m in stored] == ["user", "assistant"]
        assert made["message_ids"] == [m["id"] for m in stored]
        assert Thread.objects.get().resource_id == "user-1"

    def test_can_be_prepared_for_callers_who_call_the_provider_themselves(
        self, caller: Caller, agent: Agent, sandbox: Sandbox
    ) -> None:
        made = caller.post("/agents/plain/prepare", {"messages": "Where?", "resource_id": "user-1"}, status=200)
        assert made["prepared"]["request"]["body"]["messages"][0]["content"][0]["text"] == "Where?"
        assert caller.get(f"/runs/{made['run_id']}")["status"] == "running"
        assert sandbox.requests() == []

    def test_goes_on_with_a_thread(self, caller: Caller, agent: Agent, sandbox: Sandbox) -> None:
        thread = make.make_thread(messages=2)
        messages = [{"role": "user", "content": "And back?"}]
        made = caller.post("/agents/plain/generate", {"messages": messages, "thread_id": thread.id}, status=200)
        assert made["thread_id"] == thread.id
        assert Message.objects.filter(thread=thread).count() == 4

    def test_names_the_run_that_failed(self, caller: Caller, agent: Agent, sandbox: Sandbox) -> None:
        thread = make.make_thread(messages=2)
        sandbox.script("anthropic", status=401, body={"type": "error", "error": {"message": "no"}}, times=1)
        body = {"messages": "hi", "thread_id": thread.id}
        found = problem(caller.send("POST", "/agents/plain/generate", body), 502, "run_failed")
        run = Run.objects.get()
        assert found["run_id"] == run.id
        assert run.status == "failed"
        assert Message.objects.filter(thread=thread).count() == 2

    def test_names_the_run_that_a_processor_stopped(self, caller: Caller, sandbox: Sandbox, settings: Any) -> None:
        settings.COMPAT_ADMIN_PROCESSORS = ["tests.api.stopper.Stopper"]
        model = {"name": "Strict", "model": "anthropic/claude-sonnet-4-5"}
        caller.post("/agents", {"id": "strict", **model, "input_processors": ["stopper"]})
        body = {"messages": "hi", "resource_id": "user-1"}
        found = problem(caller.send("POST", "/agents/strict/generate", body), 422, "stopped-by-processor")
        run = Run.objects.get()
        assert found["run_id"] == run.id
        assert "not on a Sunday" in found["detail"]
        assert run.status == "stopped"
        assert not sandbox.requests()

    def test_can_be_queued(self, caller: Caller, agent: Agent, sandbox: Sandbox) -> None:
        body = {"messages": "hi", "resource_id": "user-1", "background": True}
        made = caller.post("/agents/plain/generate", body, status=202)
        run = Run.objects.get()
        assert made == {"run_id": run.id, "thread_id": run.thread_id, "status": "queued"}
        assert run.status == "queued"
        assert caller.get(f"/runs/{run.id}")["status"] == "queued"

    @pytest.mark.parametrize(
        ("body", "field"),
        [
            ({}, "messages"),
            ({"messages": 5}, "messages"),
            ({"messages": ""}, "messages"),
            ({"messages": []}, "messages"),
            ({"messages": [5]}, "messages[0]"),
            ({"messages": [{"role": "user", "content": [{"type": "text", "text": 5}]}]}, "messages[0].content[0].text"),
            ({"messages": [{"role": "user", "content": {"parts": 5}}]}, "messages[0].content.parts"),
            ({"messages": [{"role": "robot", "content": "hi"}]}, "messages[0].role"),
            ({"messages": "hi", "model": "nothing"}, "model"),
            ({"messages": "hi", "model": "nowhere/x"}, "provider"),
            ({"messages": "hi", "thread_id": "a/b"}, "thread_id"),
            ({"messages": "hi", "resource_id": "a\u0007"}, "resource_id"),
            ({"messages": "hi", "settings": {"colour": 1}}, "settings"),
            ({"messages": "hi", "tools": {}}, "tools"),
            ({"messages": "hi", "tool_choice": "perhaps"}, "tool_choice"),
            ({"messages": "hi", "background": "yes"}, "background"),
            ({"messages": "hi", "stream": True}, "stream"),
        ],
    )
    def test_is_refused_with_the_place_and_nothing_is_saved(
        self, caller: Caller, agent: Agent, sandbox: Sandbox, body: Any, field: str
    ) -> None:
        problem(caller.send("POST", "/agents/plain/generate", body), 422, "invalid_input", field)
        assert not Run.objects.exists() and not Thread.objects.exists()
        assert not sandbox.requests()

    def test_shows_no_other_resources_thread(self, outsider: Caller, agent: Agent, sandbox: Sandbox) -> None:
        make.make_thread(id="foreign", messages=2)
        body = {"messages": "hi", "thread_id": "foreign"}
        problem(outsider.send("POST", "/agents/plain/generate", body), 404, "not_found")
        assert not Run.objects.exists()
        assert Message.objects.count() == 2

    def test_are_set_changed_and_taken_away(self, caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OUR_VLLM_KEY", "sk-very-secret")
        body = {
            "id": "vllm",
            "base_url": "https://llm.test/v1/",
            "key_ref": "env:OUR_VLLM_KEY",
            "headers": {"X-Team": "shop-team"},
        }
        made = caller.post("/providers", body)
        assert made == caller.get("/providers/vllm")
        assert (made["base_url"], made["protocol"]) == ("https://llm.test/v1", "openai-chat")
        assert (made["has_key"], made["headers"], made["is_own"]) == (True, ["X-Team"], True)
        problem(caller.send("POST", "/providers", body), 409, "id_taken")
        changed = caller.patch("/providers/vllm", {"base_url": "http://10.0.0.5:8000/v1", "headers": {}})
        assert (changed["base_url"], changed["headers"], changed["has_key"]) == ("http://10.0.0.5:8000/v1", [], True)
        assert caller.send("DELETE", "/providers/vllm").status_code == 204
        assert caller.get("/providers/vllm")["is_own"] is False
        problem(caller.send("DELETE", "/providers/vllm"), 404, "not_found")
        problem(caller.send("PATCH", "/providers/vllm", {}), 404, "not_found")
        events = AuditEvent.objects.order_by("id").values_list("action", "detail")
        assert [action for action, _ in events] == [
            "key.made",
            "connection.created",
            "connection.updated",
            "connection.deleted",
        ]
        assert "very-secret" not in str(list(events)) and "shop-team" not in str(list(events))

    @pytest.mark.parametrize(
        ("given", "address"),
        [
            ({"id": "anthropic"}, "https://api.anthropic.com/v1"),
            ({"id": "deepseek", "base_url": ""}, "https://api.deepseek.com/v1"),
            ({"id": "deepseek", "protocol": "anthropic-messages"}, "https://api.deepseek.com/anthropic/v1"),
        ],
    )
    def test_without_an_address_are_at_their_vendors(self, caller: Caller, given: dict[str, str], address: str) -> None:
        made = caller.post("/providers", given)
        assert (made["base_url"], made["is_own"]) == (address, True)
        assert Provider.objects.get(id=given["id"]).base_url == ""

    def test_take_the_addresses_of_azures_deployments(self, caller: Caller) -> None:
        address = "https://us.openai.azure.com/openai/deployments/{model}?api-version=2024-10-21"
        assert caller.post("/providers", {"id": "azure", "base_url": address})["base_url"] == address
        problem(caller.send("POST", "/providers", {"id": "vertex"}), 422, "invalid_input", "base_url")
        moved = caller.send("PATCH", "/providers/azure", {"base_url": ""})
        problem(moved, 422, "invalid_input", "base_url")
        assert Provider.objects.get(id="azure").base_url == address

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("id", "nobody"),
            ("protocol", "smoke-signals"),
            ("base_url", "ftp://x.test"),
            ("base_url", "https://user:secret@x.test"),
            ("base_url", "https://x.test/v1?key=secret"),
            ("base_url", "https://x.test/v1?api-version=1&key=secret"),
            ("base_url", "sandbox:nobody"),
            ("key_ref", "sk-very-secret"),
            ("key_ref", "env:"),
            ("key_ref", "env:sk-ant-very-secret-indeed"),
            ("key_ref", "env:COMPAT_ADMIN_SECRET_KEY"),
            ("key_ref", "env:DATABASE_URL"),
            ("headers", {"Authorization": "Bearer x"}),
            ("headers", {"x-api-key": "x"}),
            ("headers", {"x y": "z"}),
            ("headers", {"x": "a\r\nb: c"}),
        ],
    )
    def test_that_make_no_sense_or_would_show_a_key_are_refused(self, caller: Caller, field: str, value: Any) -> None:
        body = {"id": "vllm", "base_url": "https://llm.test/v1", field: value}
        response = caller.send("POST", "/providers", body)
        assert problem(response, 422, msgspec.json.decode(response.content)["code"], field)
        assert b"secret" not in response.content or "COMPAT" in str(value)
        assert not Provider.objects.exists()

    def test_never_are_the_sites_own_secrets(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, db: None) -> None:
        own = tmp_path / "own"
        own.write_text("the site's own secret")
        (tmp_path / "link").symlink_to(own)
        monkeypatch.setenv("COMPAT_ADMIN_SECRET_KEY_FILE", str(own))
        for ref in (f"file:{own}", f"file:{tmp_path}/link", "env:COMPAT_ADMIN_SECRET_KEY"):
            with pytest.raises(InvalidInput, match="own"):
                provider_key(ref)


class TestDeletedAgents:
    def test_leave_their_threads_and_runs(self, caller: Caller, agent: Agent) -> None:
        run = make.make_run(make.make_thread(agent=agent), agent=agent)
        caller.patch("/rules/any-blank-text", {"state": "off", "agent_id": "plain"})
        assert caller.send("DELETE", "/agents/plain").status_code == 204
        problem(caller.send("DELETE", "/agents/plain"), 404, "not_found")
        run.refresh_from_db()
        assert (run.agent_id, run.agent_name) == (None, "Agent")
        assert caller.get(f"/threads/{run.thread_id}")["agent_id"] is None
        assert not RuleSetting.objects.exists()
