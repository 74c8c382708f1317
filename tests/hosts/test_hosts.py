"""A host of the chat format is one file and one line: what follows from these, and what a new one can do at once."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from msgspec.structs import replace

import memory.hosts
from memory.hosts import HOSTS, Host
from memory.messages.names import PROVIDERS, ModelRef
from memory.profiles import profile_for
from memory.providers import entry_for
from memory.sandbox.hosts import check
from memory.sandbox.wire import Refused

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(memory.hosts.__file__).parent
PAGE = ROOT / "docs" / "adding-a-provider.md"


class TestList:
    def test_holds_every_file(self) -> None:
        files = {path.stem for path in FOLDER.glob("*.py")} - {"__init__", "host"}
        assert files == {host.id for host in HOSTS}

    @pytest.mark.parametrize("host", HOSTS, ids=[host.id for host in HOSTS])
    def test_is_all_that_names_a_host(self, host: Host) -> None:
        sources = [*(ROOT / "memory").rglob("*"), *(ROOT / "compat_admin").rglob("*"), *(ROOT / "templates").rglob("*")]
        named = re.compile(rf"\b{host.id}\b", re.IGNORECASE)
        found = [
            path.relative_to(ROOT).as_posix()
            for path in sources
            if path.suffix in {".py", ".html", ".json", ".js"} and named.search(path.read_text(encoding="utf-8"))
        ]
        assert sorted(found) == ["memory/hosts/__init__.py", f"memory/hosts/{host.id}.py"]
        assert len(re.findall(named, (FOLDER / "__init__.py").read_text())) == 1

    def test_is_where_lists_and_profiles_come_from(self) -> None:
        for host in HOSTS:
            assert host.id in PROVIDERS
            assert entry_for(host.id).base_url == host.base_url
            assert profile_for(ModelRef(host.id, host.model_id), "openai-chat").id == host.id
            assert host.sources and urlsplit(host.base_url).scheme == "https"

    def test_is_shown_by_the_page_as_it_is(self) -> None:
        page = PAGE.read_text(encoding="utf-8")
        (file,) = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
        assert file == (FOLDER / "deepinfra.py").read_text(encoding="utf-8")
        (line,) = re.findall(r"^\+(.*)$", page, re.M)
        assert line in (FOLDER / "__init__.py").read_text(encoding="utf-8").splitlines()


PLAIN = Host(
    id="somewhere", title="Somewhere", base_url="https://x.test/v1", key_variable="X", model_id="m", sources=()
)
ASK, ANSWER = {"role": "user", "content": "Go"}, {"role": "assistant", "content": "Gone"}
SYSTEM = {"role": "system", "content": "Be brief"}
LISTED = {"role": "system", "content": [{"type": "text", "text": "Be brief"}]}
PICTURE = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x.test/a.png"}}]}
RESULT = {"role": "tool", "tool_call_id": "call:1", "content": "found"}


def called(call_id: str = "call:1") -> dict[str, object]:
    call = {"id": call_id, "type": "function", "function": {"name": "find", "arguments": "{}"}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


class TestRefusals:
    """Each fact is refused by the sandbox, where a host has it, and only there."""

    @pytest.mark.parametrize(
        ("facts", "messages"),
        [
            ({"list_roles": ("user",)}, [LISTED, ASK]),
            ({"images": False}, [PICTURE]),
            ({"tool_id_refused": "[^a-z]"}, [ASK, called(), RESULT]),
            ({"tool_id_longest": 5}, [ASK, called(), RESULT]),
            ({"system_first": True}, [ASK, SYSTEM, ASK]),
            ({"roles_alternate": True}, [ASK, ASK]),
            ({"roles_alternate": True}, [ASK, called(), RESULT, ASK]),
            ({"user_last": True}, [ASK, ANSWER]),
        ],
    )
    def test_follow_from_a_fact(self, facts: dict[str, object], messages: list[object]) -> None:
        body = {"model": "m", "messages": messages}
        check(body, PLAIN)
        with pytest.raises(Refused) as caught:
            check(body, replace(PLAIN, refuses_with=422, **facts))
        assert caught.value.status == 422

    @pytest.mark.parametrize(
        "messages",
        [
            [],
            [{"role": "developer", "content": "x"}],
            [ASK, called()],
            [ASK, RESULT],
            [ASK, called(""), {**RESULT, "tool_call_id": ""}],
            [ASK, {**ANSWER, "reasoning_content": "Hm"}],
        ],
    )
    def test_are_the_same_for_all_otherwise(self, messages: list[object]) -> None:
        with pytest.raises(Refused):
            check({"model": "m", "messages": messages}, PLAIN)

    def test_spare_the_key_a_host_takes_reasoning_under(self) -> None:
        body = {"model": "m", "messages": [ASK, {**ANSWER, "reasoning": "Hm"}]}
        check(body, replace(PLAIN, reasoning="reasoning"))


NEW = """
import json, os, sys

import memory.hosts
from memory.hosts.host import Host, Source

memory.hosts.HOSTS += (
    Host(
        id="newhost", title="New Host", base_url="https://api.newhost.test/v1", key_variable="NEWHOST_API_KEY",
        model_id="any-model", tool_id_refused="[^a-z0-9_]", tool_id_longest=40, roles_alternate=True, user_last=True,
        list_roles=("user",), sources=(Source("id", "this test", "2026-11-30"),),
    ),
)

import django
os.environ["DJANGO_SETTINGS_MODULE"] = "compat_admin.settings"
django.setup()
from django.conf import settings
from django.core.management import call_command

import memory.sandbox
from memory import check
from memory.messages.names import PROVIDERS
from memory.models import Provider
from memory.services import agents, preview, runs
from memory.services.connections import connection_for
from tests.make import add_messages, caller, make_thread, message, text, tool_call

call_command("migrate", verbosity=0)
said = {"vendor": connection_for("newhost", with_key=False).base_url}
sandbox = memory.sandbox.start()
settings.SANDBOX_URL = sandbox.url
Provider.objects.create(id="newhost", protocol="openai-chat", base_url="sandbox:newhost")
thread = make_thread("someone")
add_messages(
    thread, text("Find it"), text("Please"),
    message(tool_call("call:1.a/b", "result", result="found"), {"type": "text", "text": "Found."},
            metadata={"provider": "anthropic", "modelId": "claude"}),
)
agent = agents.create_agent(caller(), {"id": "a", "name": "A", "model": "newhost/any-model"})
shown = preview.preview(caller(), thread_id=thread.id, provider="newhost", model="any-model")
said["rules"] = sorted({change.rule for change in shown.changes})
asked = runs.GenerateRequest(messages="And now?", thread_id=thread.id, resource_id="someone")
said["text"] = runs.generate(caller(), "a", asked).text
(seen,) = sandbox.requests("newhost")
said["status"], said["path"] = seen["status"], seen["path"]
said["ids"] = [c["id"] for m in seen["body"]["messages"] for c in m.get("tool_calls") or []]
said["listed"] = [name for name in PROVIDERS if name == "newhost"]
said["check"] = check.main([sys.argv[1], "--to", "newhost/any-model", "--json"])
sandbox.stop()
print("SAID", json.dumps(said))
"""


def test_a_new_host_can_be_previewed_called_and_checked(tmp_path: Path) -> None:
    history = tmp_path / "history.json"
    history.write_text(json.dumps({"model": "gpt-4o", "messages": [ASK, called(), RESULT, ANSWER]}))
    environment = {**os.environ, "COMPAT_ADMIN_DEBUG": "true", "DATABASE_URL": f"sqlite:///{tmp_path}/rows.sqlite3"}
    ended = subprocess.run(
        [sys.executable, "-c", NEW, str(history)],
        cwd=ROOT,
        env=environment | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
    *findings, last = ended.stdout.splitlines()
    said = json.loads(last.removeprefix("SAID "))
    assert said["vendor"] == "https://api.newhost.test/v1"
    assert said["listed"] == ["newhost"]
    assert (said["status"], said["text"]) == (200, "You said: And now?")
    assert said["path"] == "/newhost/v1/chat/completions"
    (call_id,) = said["ids"]
    assert re.fullmatch("[a-z0-9_]{1,40}", call_id)
    assert {"any-tool-id", "any-role-order"} <= set(said["rules"])
    assert said["check"] == 1
    assert "any-tool-id" in {json.loads(finding)["rule"] for finding in findings}


def test_the_sandbox_plays_it_at_its_own_path_too() -> None:
    from memory.sandbox import start

    sandbox = start()
    try:
        for host in HOSTS:
            url = f"{sandbox.url}/{host.id}{urlsplit(host.base_url).path}/chat/completions"
            body = {"model": host.model_id, "messages": [ASK]}
            assert httpx.post(url, json=body, headers={"authorization": "Bearer x"}).status_code == 200
            assert httpx.post(url, json=body).status_code == 401
    finally:
        sandbox.stop()
