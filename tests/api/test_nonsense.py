"""Nothing a caller sends may break a route, and nothing of it may be half-saved."""

import itertools
import re
from typing import Any

import msgspec
import pytest

from memory.models import Agent, Attempt, Message, RuleSetting, Run, Thread
from memory.sandbox import Sandbox
from tests import make
from tests.api.callers import PROBLEM, Caller
from tests.api.test_errors import ROUTES

SEGMENTS = [
    "%00",
    "%ED%A0%80",
    "%ff%fe",
    "%F0%9F%9A%82",
    "%0A",
    "%2e%2e",
    "..",
    "%25",
    "'%22%3B--",
    "9" * 400,
    "a%3Fb%23c",
    "%E2%80%AE",
    "null",
    "-1",
    "%5Bx%5D",
]
QUERIES = [
    "limit=%00",
    "limit=" + "9" * 5000,
    "limit=NaN",
    "limit=1&limit=x",
    "limit[]=1",
    "cursor=%ED%A0%80",
    "cursor=" + "a" * 5000,
    "cursor=.",
    "resource_id=%00&provider=%ff",
    "has_error=perhaps",
    "status=%00&thread_id=%ff&agent_id=%ED%A0%80",
    "version=%00",
    "version=" + "9" * 30,
    "=&&=&%",
]
VALUES: list[Any] = [
    None,
    True,
    0,
    -1,
    10**400,
    1.5e300,
    "",
    "\x00",
    "x" * 10_000,
    "../..",
    "\u202e\uffff",
    [],
    {},
    [[]],
    [None],
    [{}],
    {"": ""},
    {"id": {}, "options": 5},
    {"role": "user", "content": {"parts": [{"type": "text"}]}},
    [{"role": "user", "content": {"parts": [{"type": "tool-invocation", "toolInvocation": {"state": "result"}}]}}],
    [{"role": "tool", "content": [{"type": "tool-result", "toolCallId": [], "output": {"type": "json"}}]}],
    {"format": "anthropic-messages", "body": {"messages": [None, 5, {"role": "user", "content": [{"type": 5}]}]}},
    {"format": "openai-chat", "body": {"messages": {"role": 5}, "tools": [[]]}},
    {"anthropic-tool-id-charset": "on", "": "off"},
]
SOME: list[Any] = [None, True, -1, "", "\x00", [], {}, [None], [{}], {"": ""}]
# JSON as bytes: what no encoder of ours would write.
BODIES = [
    b"",
    b"null",
    b"[]",
    b"5",
    b'"x"',
    b"{",
    b"\xff",
    b"\xef\xbb\xbf{}",
    b"{}" * 2,
    b"[" * 50_000 + b"]" * 50_000,
    b'{"a":' * 50_000,
    b'{"messages":' + b"[" * 950 + b"]" * 950 + b"}",
    b'{"messages": [{"role": "user", "content": {"parts": [' + b"[" * 150 + b"]" * 150 + b"]}}]}",
    b'{"messages": [{"role": "user", "content": {"parts": [], "metadata": '
    + b'{"a":' * 190
    + b"1"
    + b"}" * 190
    + b"}}]}",
    b'{"title": "\\ud800", "messages": [{"role": "user", "content": "\\udc00\\u0000"}], "provider": "\\ud83d"}',
    b'{"title": "\xed\xa0\x80"}',
    b'{"messages": 1, "messages": 2, "resource_id": "a", "resource_id": {}}',
    b'{"metadata": {"n": ' + b"9" * 5000 + b"}}",
    b'{"metadata": {"n": 1e999}, "resource_id": "r"}',
    '{"resource_id": "r"}'.encode("utf-16"),
    b'{"__proto__": {}, "constructor": 1, "\\u0000": 2}',
]
FIELDS = {
    ("POST", "/threads"): {"resource_id": "r", "id": "t", "title": "t", "metadata": {}, "agent_id": None},
    ("PATCH", "/threads/{thread_id}"): {"title": "t", "metadata": {}, "agent_id": None},
    ("POST", "/threads/{thread_id}/messages"): {"messages": [{"role": "user", "content": "hi"}]},
    ("POST", "/agents"): {
        "id": "a",
        "name": "A",
        "model": "openai/x",
        "instructions": "",
        "tools": [],
        "settings": {},
        "input_processors": [],
        "processors": [],
        "max_steps": 1,
        "max_processor_retries": None,
    },
    ("PATCH", "/agents/{agent_id}"): {"name": "A", "model": "openai/x", "tools": [], "error_processors": []},
    ("POST", "/agents/{agent_id}/generate"): {
        "messages": "hi",
        "thread_id": "t",
        "resource_id": "r",
        "model": "anthropic/x",
        "settings": {},
        "tools": [],
        "tool_choice": "auto",
        "background": False,
    },
    ("POST", "/agents/{agent_id}/prepare"): {"messages": "hi", "thread_id": "t", "resource_id": "r"},
    ("PATCH", "/rules/{name}"): {"state": "on", "provider": None, "agent_id": None},
    ("POST", "/preview"): {
        "provider": "anthropic",
        "model": "x",
        "thread_id": None,
        "messages": [{"role": "user", "content": "hi"}],
        "agent_id": None,
        "settings": {},
        "rules": {},
    },
    ("POST", "/threads/{thread_id}/clone"): {
        "id": "c",
        "resource_id": "r",
        "title": "t",
        "metadata": {},
        "up_to": None,
        "last": 1,
    },
    ("POST", "/threads/{thread_id}/messages/{message_id}/revert"): {"version": 1},
    ("POST", "/providers"): {
        "id": "vllm",
        "base_url": "http://127.0.0.1:1/v1",
        "protocol": "openai-chat",
        "key_ref": "",
        "headers": {},
    },
    ("PATCH", "/providers/{provider_id}"): {"base_url": "sandbox:anthropic", "key_ref": "", "headers": {}},
    ("POST", "/errors/explain"): {
        "provider": "anthropic",
        "status": 429,
        "model": "",
        "headers": {"retry-after": "8"},
        "body": "",
        "agent_id": None,
        "thread_id": None,
        "times": 1,
    },
    ("POST", "/keys"): {"name": "n", "scopes": ["read"], "resource_id": "", "expires_in_s": 60},
    ("POST", "/tokens"): {"resource_id": "r", "scopes": ["read"], "expires_in_s": 60, "name": ""},
}


def known(path: str) -> str:
    """The route's path with ids that exist."""
    ids = {
        "thread_id": "thread",
        "message_id": "m",
        "agent_id": "plain",
        "run_id": "run",
        "provider_id": "anthropic",
        "key_id": 1,
        "name": "any-tool-id",
    }
    return path.format(**ids)


def rows() -> dict[str, Any]:
    kinds = (Agent, Attempt, Message, RuleSetting, Run, Thread)
    return {kind.__name__: list(kind.objects.order_by("pk").values()) for kind in kinds}


@pytest.fixture(autouse=True)
def some_rows(agent: Agent, sandbox: Sandbox) -> None:
    """A row of each kind."""
    thread = make.make_thread(id="thread")
    make.add_messages(thread, make.text("hi", id="m"))
    make.make_attempt(make.make_run(thread, id="run"))


def send(caller: Caller, method: str, path: str, body: Any = None) -> bool:
    """Send it; whether it was taken. A refusal is a problem document and leaves every row as it was."""
    is_read = method == "GET" or path in (
        "/preview",
        "/errors/explain",
    )  # These are many, and what they would have to change is looked at once.
    before = {} if is_read else rows()
    response = caller.send(method, path, body)
    if response.status_code == 502:
        # The nonsense was a turn's to try, and the provider refused it.
        assert path.endswith("/generate") and b'"run_failed"' in response.content
        return False
    assert response.status_code < 500, (method, path[:200], str(body)[:200], response.content[:500])
    if response.streaming:
        assert response.headers["Content-Type"] == "text/event-stream"
        return True
    if response.status_code < 400:
        msgspec.json.decode(response.content or b"null")
        return True
    assert response.headers["Content-Type"] == PROBLEM
    assert is_read or rows() == before, (method, path[:200], str(body)[:200])
    return False


class TestNonsense:
    @pytest.mark.parametrize(("method", "path"), [route for route in ROUTES if "{" in route[1]])
    def test_in_paths_is_refused(self, caller: Caller, method: str, path: str) -> None:
        for segment in SEGMENTS:
            for name in re.findall(r"{(\w+)}", path):
                nonsense = known(path.replace(f"{{{name}}}", segment.replace("{", "")))
                assert not send(caller, method, nonsense, {"messages": "hi"}), nonsense

    @pytest.mark.parametrize("path", [path for method, path in ROUTES if method == "GET"])
    def test_in_queries_breaks_nothing(self, caller: Caller, path: str) -> None:
        for query in QUERIES:
            send(caller, "GET", f"{known(path)}?{query}")

    @pytest.mark.parametrize(("method", "path"), FIELDS)
    def test_in_bodies_breaks_nothing(self, caller: Caller, method: str, path: str) -> None:
        for body in BODIES:
            send(caller, method, known(path), body)

    @pytest.mark.parametrize(("method", "path"), FIELDS)
    def test_in_any_field_breaks_nothing(self, caller: Caller, method: str, path: str) -> None:
        good = FIELDS[method, path]
        for field, value in itertools.product(good, VALUES):
            send(caller, method, known(path), {**good, field: value})

    def test_in_parts_is_refused_or_can_be_used_afterwards(self, caller: Caller) -> None:
        shapes: list[dict[str, Any]] = [
            {"type": "text", "text": VALUES},
            {"type": "text", "providerMetadata": VALUES},
            {"type": "reasoning", "reasoning": VALUES, "details": VALUES},
            {"type": "reasoning", "details": [[value] for value in VALUES]},
            {"type": "file", "data": VALUES, "mimeType": VALUES},
            {"type": "source", "source": VALUES},
            {"type": VALUES},
            {"type": "tool-invocation", "toolInvocation": VALUES},
        ]
        parts = [
            {key: value[i] if isinstance(value, list) else value for key, value in shape.items()}
            for shape in shapes
            for i in range(len(VALUES))
        ]
        for name, value in itertools.product(("state", "toolCallId", "toolName", "args", "result"), VALUES):
            call = {"state": "result", "toolCallId": "c", "toolName": "t", "args": {}, "result": "r", name: value}
            parts.append({"type": "tool-invocation", "toolInvocation": call})
        taken = 0
        for part in parts:
            message = {"role": "assistant", "content": {"format": 2, "parts": [part]}}
            taken += send(caller, "POST", "/threads/thread/messages", {"messages": [message]})
            send(caller, "POST", "/preview", {"messages": [message], "provider": "openai", "model": "x"})
        assert taken > len(parts) / 3
        # Whatever was stored can be read and sent.
        assert send(caller, "GET", "/threads/thread/messages?limit=200")
        for provider in ("anthropic", "openai", "cerebras"):
            body = {"thread_id": "thread", "provider": provider, "model": "x"}
            assert send(caller, "POST", "/preview", body), provider

    @pytest.mark.parametrize("protocol", ["anthropic-messages", "openai-chat"])
    def test_in_imported_bodies_breaks_nothing(self, caller: Caller, protocol: str) -> None:
        good = {
            "messages": [{"role": "user", "content": "hi"}],
            "model": "x",
            "system": "be kind",
            "tools": [],
            "tool_choice": "auto",
            "max_tokens": 5,
        }
        bodies = [{**good, field: value} for field, value in itertools.product(good, SOME)]
        for field, value in itertools.product(("role", "content", "tool_calls", "reasoning_content"), SOME):
            for role in ("user", "assistant", "tool", "system"):
                bodies.append({**good, "messages": [{"role": role, "content": "hi", field: value}]})
        kinds = ("text", "thinking", "tool_use", "tool_result", "image", "image_url", "redacted_thinking")
        for kind, value in itertools.product(kinds, SOME):
            for field in ("text", "thinking", "id", "name", "input", "tool_use_id", "content", "source", "image_url"):
                block = {"type": kind, "id": "c", "name": "t", "tool_use_id": "c", field: value}
                messages = [{"role": role, "content": [block]} for role in ("user", "assistant")]
                bodies.append({**good, "messages": messages})
        for name, value in itertools.product(("id", "function", "type"), SOME):
            call = {"id": "c", "type": "function", "function": {"name": "t", "arguments": "{}"}, name: value}
            bodies.append({**good, "messages": [{"role": "assistant", "content": None, "tool_calls": [call]}]})
        for name, value in itertools.product(("name", "arguments"), SOME):
            call = {"id": "c", "type": "function", "function": {"name": "t", "arguments": "{}", name: value}}
            bodies.append({**good, "messages": [{"role": "assistant", "content": None, "tool_calls": [call]}]})
        before = rows()
        for body in bodies:
            source = {"format": protocol, "body": body}
            send(caller, "POST", "/preview", {"messages": source, "provider": "anthropic", "model": "x"})
        assert rows() == before
