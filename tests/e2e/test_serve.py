"""Processes by role on one database: who runs what, and what one process tells about the runs of another."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import memory.sandbox
from memory.sandbox import Sandbox
from tests.e2e.demo_process import ROOT, free_port
from tests.e2e.test_demo import until

FILL = """
import django; django.setup()
from memory.access import operator
from memory.models import Provider
from memory.principal import SCOPES
from memory.services import agents
from memory.services.keys import make_key
Provider.objects.create(id="anthropic", protocol="anthropic-messages", base_url="sandbox:anthropic")
retry = {"id": "stream-error-retry-processor", "options": {"max_retries": 2}}
lists = {"input_processors": ["message-history"], "output_processors": ["message-history"], "error_processors": [retry]}
agents.create_agent(operator("op"), {"id": "a", "name": "A", "model": "anthropic/claude-sonnet-4-5", **lists})
print(make_key(operator("op"), "key", scopes=SCOPES)[1])
"""


class Site:
    """A web process and a runner; `web` and `runner` are clients of their APIs."""

    def __init__(self, folder: Path, sandbox: Sandbox) -> None:
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("COMPAT_ADMIN_", "DATABASE_", "DJANGO_"))}
        self._environment = inherited | {
            "DJANGO_SETTINGS_MODULE": "compat_admin.settings",
            "COMPAT_ADMIN_SECRET_KEY": "only for the tests, where nothing is secret",
            "COMPAT_ADMIN_HTTPS": "false",
            "COMPAT_ADMIN_SANDBOX_URL": sandbox.url,
            "DATABASE_URL": f"sqlite:///{folder}/rows.sqlite3",
        }
        self._run("manage.py", "migrate", "--verbosity", "0")
        key = self._run("-c", FILL).strip()
        self.processes: list[subprocess.Popen[str]] = []
        self.web, self.runner = (self._serve(role, key) for role in ("web", "runner"))

    def _run(self, *command: str) -> str:
        ended = subprocess.run(
            [sys.executable, *command], cwd=ROOT, env=self._environment, capture_output=True, text=True, timeout=120
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def _serve(self, role: str, key: str) -> httpx.Client:
        port = free_port()
        command = [sys.executable, "manage.py", "serve", role, "--port", str(port)]
        process = subprocess.Popen(command, cwd=ROOT, env=self._environment, stdout=subprocess.PIPE, text=True)
        self.processes.append(process)
        assert process.stdout is not None and process.stdout.readline().startswith("ready: ")
        headers = {"Authorization": f"Bearer {key}"}
        return httpx.Client(base_url=f"http://127.0.0.1:{port}/api", headers=headers, timeout=60, trust_env=False)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    started = memory.sandbox.start()
    yield started
    started.stop()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, sandbox: Sandbox) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("site"), sandbox)
    yield made
    for process in made.processes:
        process.kill()
        process.wait()


def run(client: httpx.Client, run_id: str) -> Any:
    return client.get(f"/runs/{run_id}").json()


def test_a_run_outlives_its_socket_and_is_read_on_elsewhere(site: Site, sandbox: Sandbox) -> None:
    sandbox.script("anthropic", pace_s=0.1)
    asked = {"messages": "one two three four five six seven eight", "thread_id": "t1"}
    with site.runner.stream("POST", "/agents/a/stream", json=asked) as answer:
        run_id = answer.headers["x-run-id"]
        begun = ""
        for piece in answer.iter_text():
            begun += piece
            if "event: text-delta" in begun:
                break
    whole = begun[: begun.rindex("\n\n") + 2]
    last = re.findall(r"^id: (\d+)$", whole, re.M)[-1]
    rest = site.web.get(f"/runs/{run_id}/events", headers={"Last-Event-ID": last}).text
    assert "event: finished" in rest
    assert whole + rest == site.web.get(f"/runs/{run_id}/events").text
    assert run(site.web, run_id)["status"] == "succeeded"


def test_a_wait_is_cancelled_from_another_process(site: Site, sandbox: Sandbox) -> None:
    sandbox.script("anthropic", status=429, headers={"retry-after": "3600"})
    with site.runner.stream("POST", "/agents/a/stream", json={"messages": "hi", "thread_id": "t2"}) as answer:
        run_id = answer.headers["x-run-id"]
        until(lambda: len(run(site.web, run_id)["attempts"]) == 1, within_s=20)
        until(lambda: run(site.web, run_id)["attempts"][0]["decision"] == "retry", within_s=20)
        assert site.web.post(f"/runs/{run_id}/cancel").json()["run_id"] == run_id
        told = "".join(answer.iter_text())
    assert told.endswith('event: finished\ndata: {"status":"cancelled"}\n\n')
    assert run(site.web, run_id)["status"] == "cancelled"


def test_a_stream_is_cancelled_from_another_process_and_what_came_is_kept(site: Site, sandbox: Sandbox) -> None:
    sandbox.script("anthropic", pace_s=2)
    with site.runner.stream("POST", "/agents/a/stream", json={"messages": "a b c d e f", "thread_id": "t3"}) as answer:
        told = ""
        pieces = answer.iter_text()
        while "event: text-delta" not in told:
            told += next(pieces)
        site.web.post(f"/runs/{answer.headers['x-run-id']}/cancel")
        told += "".join(pieces)
    assert '{"status":"cancelled"}' in told
    (_, kept) = site.web.get("/threads/t3/messages").json()["items"]
    assert kept["content"]["metadata"]["incomplete"] is True


def test_a_web_process_takes_runs_for_others_and_a_busy_thread_is_busy_everywhere(site: Site, sandbox: Sandbox) -> None:
    sandbox.script("anthropic", status=429, headers={"retry-after": "3600"})
    first = site.runner.post("/agents/a/generate", json={"messages": "hi", "thread_id": "t4", "background": True})
    run_id = first.json()["run_id"]
    until(lambda: run(site.web, run_id)["status"] == "running", within_s=20)
    refused = site.web.post("/agents/a/generate", json={"messages": "hi", "thread_id": "t4", "background": True})
    assert (refused.status_code, refused.json()["run_id"]) == (409, run_id)
    queued = site.web.post(
        "/agents/a/generate", json={"messages": "second", "thread_id": "t4", "background": True, "when_busy": "queue"}
    )
    assert queued.status_code == 202
    site.web.post(f"/runs/{run_id}/cancel")
    until(lambda: run(site.web, queued.json()["run_id"])["status"] == "succeeded", within_s=20)
