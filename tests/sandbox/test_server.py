"""Routes, scripts, drops, delays and the list of requests."""

import copy
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import memory.sandbox
from memory.messages.names import PROVIDERS
from memory.sandbox import Sandbox
from memory.sandbox.book import Book
from memory.sandbox.vendors import VENDORS
from tests.sandbox.conftest import HEADERS, PATHS, Caller

HELLO = [{"role": "user", "content": "Hello"}]
CALL = {"type": "function", "function": {"name": "look_up", "arguments": "{}"}}
SCHEMA = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "Hello"}], "name": "Ann"},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "call_1", **CALL}, {"id": "call_2", **CALL}]},
    {"role": "tool", "tool_call_id": "call_1", "content": "one"},
    {"role": "tool", "tool_call_id": "call_2", "content": [{"type": "text", "text": "two"}]},
    {"role": "user", "content": "look_up"},
]
CHAT_TOOLS = [{"type": "function", "function": {"name": "look_up", "parameters": SCHEMA}}]
VALID: dict[str, dict[str, Any]] = {
    "anthropic": {
        "model": "claude-sonnet-4-5",
        "max_tokens": 2048,
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        "tools": [{"name": "look_up", "input_schema": SCHEMA}],
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": False},
        "stream": True,
        "messages": [
            {"role": "user", "content": "Hello"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Hm.", "signature": "c2lnbmVk" * 8},
                    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
                    {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
                    {"type": "tool_use", "id": "toolu_1", "name": "look_up", "input": {"q": "a"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "one"}]},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
                    {"type": "text", "text": "look_up"},
                ],
            },
        ],
    },
    "openai": {
        "model": "gpt-4o",
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": CHAT_TOOLS,
        "tool_choice": {"type": "function", "function": {"name": "look_up"}},
        "messages": CHAT,
    },
    "cerebras": {"model": "gpt-oss-120b", "reasoning_effort": "low", "tools": CHAT_TOOLS, "messages": CHAT},
}
HOSTED = [
    *CHAT[:1],
    {"role": "user", "content": [{"type": "text", "text": "Hello"}]},
    {
        "role": "assistant",
        "content": "Hm.",
        "tool_calls": [{"id": "aaaaaaaaa", **CALL}, {"id": "bbbbbbbbb", **CALL}],
    },
    {"role": "tool", "tool_call_id": "aaaaaaaaa", "content": "one"},
    {"role": "tool", "tool_call_id": "bbbbbbbbb", "content": "two"},
    {"role": "assistant", "content": "Both."},
    {"role": "user", "content": "look_up"},
]
VALID |= {
    provider: {"model": "m/any", "tools": CHAT_TOOLS, "tool_choice": "auto", "messages": HOSTED}
    for provider, path in PATHS.items()
    if path.endswith("/v1/chat/completions") and provider not in VALID
}
NONSENSE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["type", "text", "id"]), inner),
    max_leaves=4,
)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container of a JSON value with every key or index in it."""
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from places(value[key])


class TestRoutes:
    def test_are_there_for_every_provider(self) -> None:
        assert VENDORS.keys() == set(PROVIDERS)

    def test_of_unknown_providers_are_not_found(self, client: httpx.Client) -> None:
        assert client.post("/nobody/v1/messages", json={}).status_code == 404
        assert client.get("/").status_code == 404

    @pytest.mark.parametrize("provider", VENDORS)
    def test_of_a_provider_are_the_vendors(self, client: httpx.Client, provider: str) -> None:
        headers = HEADERS[provider]

        assert client.post(f"/{provider}/v1/other", json={}, headers=headers).status_code == 404
        assert client.get(PATHS[provider], headers=headers).status_code == 405
        query = client.post(f"{PATHS[provider]}?beta=true", json={}, headers=headers)
        assert query.status_code in (400, 422)

    def test_need_no_length(self, client: httpx.Client) -> None:
        pieces = [b'{"model": "gpt-4o", "messages": [{"role": ', b'"user", "content": "In pieces"}]}']

        response = client.post(PATHS["openai"], content=iter(pieces), headers=HEADERS["openai"])

        assert response.json()["choices"][0]["message"]["content"] == "You said: In pieces"

    @pytest.mark.parametrize(
        "head", [b"Content-Length: many", b"Content-Length: -1", b"Transfer-Encoding: chunked\r\n\r\nzz"]
    )
    def test_refuse_a_length_that_is_none(self, sandbox: Sandbox, head: bytes) -> None:
        with socket.create_connection(("127.0.0.1", int(sandbox.url.rsplit(":", 1)[1])), timeout=5) as raw:
            raw.sendall(b"POST /openai/v1/chat/completions HTTP/1.1\r\nHost: x\r\n" + head + b"\r\n\r\n")

            assert raw.recv(100).startswith(b"HTTP/1.1 400 ")

    @pytest.mark.parametrize("provider", VALID)
    @settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(data=st.data())
    def test_answer_any_nonsense(self, client: httpx.Client, data: st.DataObject, provider: str) -> None:
        body = copy.deepcopy(VALID[provider])
        assert client.post(PATHS[provider], json=body, headers=HEADERS[provider]).status_code == 200

        container, key = data.draw(st.sampled_from(list(places(body))))
        if data.draw(st.booleans()):
            container[key] = data.draw(NONSENSE)
        else:
            del container[key]
        response = client.post(PATHS[provider], json=body, headers=HEADERS[provider])

        assert response.status_code in (200, 400, 422)


class TestScripts:
    def test_answer_in_order_and_then_it_is_normal_again(self, openai: Caller) -> None:
        post = openai.client.post
        first = {
            "provider": "openai",
            "status": 429,
            "headers": {"Retry-After": "7"},
            "body": {"error": {"message": "A"}},
        }
        assert post("/_script", json={**first, "times": 2}).status_code == 200
        assert post("/_script", json={"provider": "openai", "body": {"any": "reply"}}).status_code == 200

        answers = [openai.post(messages=HELLO) for _ in range(4)]

        assert [answer.status_code for answer in answers] == [429, 429, 200, 200]
        assert answers[0].headers["retry-after"] == "7"
        assert answers[0].json() == {"error": {"message": "A"}}
        assert answers[2].json() == {"any": "reply"}
        assert answers[3].json()["object"] == "chat.completion"

    def test_are_for_one_provider(self, sandbox: Sandbox, openai: Caller, anthropic: Caller) -> None:
        sandbox.script("anthropic", status=503)

        assert openai.post(messages=HELLO).status_code == 200
        assert anthropic.post(messages=HELLO).status_code == 503

    @pytest.mark.parametrize(
        ("provider", "status", "kind"),
        [
            ("anthropic", 529, "overloaded_error"),
            ("anthropic", 429, "rate_limit_error"),
            ("openai", 500, "server_error"),
            ("cerebras", 429, "too_many_requests_error"),
        ],
    )
    def test_without_a_body_speak_as_the_vendor(
        self, sandbox: Sandbox, client: httpx.Client, provider: str, status: int, kind: str
    ) -> None:
        sandbox.script(provider, status=status)

        response = Caller(client, provider).post()

        assert response.status_code == status
        body = response.json()
        assert body.get("error", body)["type"] == kind

    def test_check_nothing(self, sandbox: Sandbox, anthropic: Caller) -> None:
        sandbox.script("anthropic", body={"content": []})

        assert anthropic.post(messages=[]).json() == {"content": []}

    def test_that_only_wait_give_the_normal_answer(self, sandbox: Sandbox, openai: Caller) -> None:
        sandbox.script("openai", delay_s=0.2, times=2)
        started = time.monotonic()

        assert openai.accepted(messages=HELLO)["choices"][0]["message"]["content"] == "You said: Hello"
        assert time.monotonic() - started >= 0.2
        assert openai.refusal(messages=[]).startswith("Invalid 'messages'")

    def test_that_only_set_headers_give_the_normal_answer(self, sandbox: Sandbox, openai: Caller) -> None:
        sandbox.script("openai", headers={"Retry-After": "1"})

        response = openai.post(messages=HELLO)

        assert (response.status_code, response.headers["retry-after"]) == (200, "1")
        assert response.json()["object"] == "chat.completion"

    @pytest.mark.parametrize("ends", ["\n\n", "\r\n\r\n", ""])
    def test_send_text_as_it_is(self, sandbox: Sandbox, anthropic: Caller, ends: str) -> None:
        stream = f'event: message_start\ndata: {{}}\n\nevent: error\ndata: {{"type":"error"}}{ends}'
        sandbox.script("anthropic", body=stream)

        response = anthropic.post(messages=HELLO, stream=True)

        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.text == stream

    def test_cut_streams_into_pieces(self, sandbox: Sandbox, openai: Caller) -> None:
        whole = openai.post(messages=HELLO, stream=True).content
        body = {"model": "gpt-4o", "messages": HELLO, "stream": True}
        sandbox.script("openai", pieces=7)

        with openai.client.stream("POST", PATHS["openai"], json=body, headers=HEADERS["openai"]) as response:
            pieces = list(response.iter_raw())

        assert b"".join(pieces) == whole
        assert {len(piece) for piece in pieces[:-1]} == {7}

    @pytest.mark.parametrize(
        ("fields", "named"),
        [
            ({"provider": "nobody", "status": 500}, "provider"),
            ({"status": 500}, "provider"),
            ({"provider": "openai", "status": 99}, "status"),
            ({"provider": "openai", "status": "500"}, "status"),
            ({"provider": "openai", "status": True}, "status"),
            ({"provider": "openai"}, "status"),
            ({"provider": "openai", "status": 500, "times": 0}, "times"),
            ({"provider": "openai", "status": 500, "times": 10_001}, "times"),
            ({"provider": "openai", "headers": ["a"]}, "headers"),
            ({"provider": "openai", "headers": {"retry-after": 3}}, "headers"),
            ({"provider": "openai", "headers": {"a": "b\r\nc: d"}}, "headers"),
            ({"provider": "openai", "headers": {"a b": "c"}}, "headers"),
            ({"provider": "openai", "headers": {"Content-Length": "3"}}, "headers"),
            ({"provider": "openai", "drop": "after"}, "drop"),
            ({"provider": "openai", "drop": "before", "status": 500}, "drop"),
            ({"provider": "openai", "delay_s": -1}, "delay_s"),
            ({"provider": "openai", "delay_s": "1"}, "delay_s"),
            ({"provider": "openai", "delay_s": 3601}, "delay_s"),
            ({"provider": "openai", "delay": 1}, "delay"),
            ({"provider": "openai", "failure": "tired"}, "failure"),
            ({"provider": "openai", "failure": 500}, "failure"),
            ({"provider": "openai", "failure": "capacity"}, "failure"),
            ({"provider": "openai", "failure": "overloaded", "status": 500}, "failure"),
            ({"provider": "openai", "after": 1}, "after"),
            ({"provider": "openai", "failure": "overloaded", "after": -1}, "after"),
            ({"provider": "openai", "pieces": 0}, "pieces"),
            ({"provider": "openai", "pieces": 1.5}, "pieces"),
        ],
    )
    def test_that_are_wrong_name_the_field(
        self, sandbox: Sandbox, openai: Caller, fields: dict[str, Any], named: str
    ) -> None:
        response = openai.client.post("/_script", json=fields)

        assert response.status_code == 422
        assert response.json()["error"]["message"].startswith(f"{named}: ")
        assert openai.post(messages=HELLO).status_code == 200  # nothing was queued
        with pytest.raises(ValueError, match="times"):
            sandbox.script("openai", times=-1, status=500)

    @pytest.mark.parametrize("raw", [b"", b"{", b"[]", b'"text"'])
    def test_that_are_no_object_are_refused(self, client: httpx.Client, raw: bytes) -> None:
        assert client.post("/_script", content=raw).status_code == 422
        assert client.get("/_script").status_code == 405


class TestDrops:
    def test_before_send_nothing(self, sandbox: Sandbox, openai: Caller) -> None:
        sandbox.script("openai", drop="before")

        with pytest.raises(httpx.ReadError):
            openai.post(messages=HELLO)

        (arrival,) = sandbox.requests()
        assert (arrival["status"], arrival["drop"]) == (None, "before")
        assert openai.post(messages=HELLO).status_code == 200

    @pytest.mark.parametrize("streamed", [False, True])
    def test_mid_send_half_of_the_reply(self, sandbox: Sandbox, openai: Caller, streamed: bool) -> None:
        body = {"model": "gpt-4o", "messages": HELLO, "stream": streamed}
        whole = len(openai.post(**body).content)
        sandbox.script("openai", drop="mid")

        received = b""
        with (
            pytest.raises(httpx.TransportError),
            openai.client.stream("POST", PATHS["openai"], json=body, headers=HEADERS["openai"]) as response,
        ):
            assert response.status_code == 200
            for piece in response.iter_raw():
                received += piece

        assert 0 < len(received) < whole
        assert sandbox.requests()[-1]["drop"] == "mid"

    def test_are_resets(self, sandbox: Sandbox) -> None:
        sandbox.script("openai", drop="before")
        with socket.create_connection(("127.0.0.1", int(sandbox.url.rsplit(":", 1)[1])), timeout=5) as raw:
            raw.sendall(b"POST /openai/v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")

            with pytest.raises(ConnectionResetError):
                raw.recv(1)


class TestRequests:
    def test_are_listed(self, client: httpx.Client, sandbox: Sandbox, openai: Caller, anthropic: Caller) -> None:
        openai.post(messages=HELLO, seed=123456789012345678901234567890)
        anthropic.post(messages=[])
        before = time.time()

        everything = client.get("/_requests").json()
        ours = client.get("/_requests", params={"provider": "openai"}).json()

        assert everything == sandbox.requests()
        assert [entry["provider"] for entry in everything] == ["openai", "anthropic"]
        assert ours == sandbox.requests("openai") == everything[:1]
        (entry,) = ours
        assert (entry["method"], entry["path"], entry["status"]) == ("POST", PATHS["openai"], 200)
        assert entry["body"] == {"model": "gpt-4o", "messages": HELLO, "seed": 123456789012345678901234567890}
        assert entry["size_bytes"] > 50
        assert entry["drop"] is None
        assert before - 60 < entry["started_at"] <= entry["finished_at"] <= before
        assert everything[1]["number"] == entry["number"] + 1
        assert everything[1]["status"] == 400

    def test_hide_keys(self, client: httpx.Client, sandbox: Sandbox) -> None:
        secret = dict.fromkeys(("authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie"), "hush-hush")
        client.post(
            "/gemini/v1/models/x:generateContent?alt=sse&key=hush-hush&api_key=hush-hush", json={}, headers=secret
        )

        assert "hush-hush" not in client.get("/_requests").text
        (entry,) = sandbox.requests()
        assert entry["headers"]["x-api-key"] == "***"
        assert entry["headers"]["user-agent"].startswith("python-httpx")
        assert entry["path"] == "/gemini/v1/models/x:generateContent?alt=sse&key=***&api_key=***"

    def test_hold_bodies_that_are_no_json_as_text(self, client: httpx.Client, sandbox: Sandbox) -> None:
        client.post(PATHS["openai"], content=b"{ \xff", headers=HEADERS["openai"])
        client.get(PATHS["openai"])

        assert [entry["body"] for entry in sandbox.requests()] == ["{ �", None]

    def test_are_listed_while_they_wait(self, sandbox: Sandbox, openai: Caller) -> None:
        sandbox.script("openai", delay_s=30)
        with pytest.raises(httpx.ReadTimeout):
            openai.client.post(
                PATHS["openai"], json={"model": "gpt-4o", "messages": HELLO}, headers=HEADERS["openai"], timeout=0.2
            )

        (entry,) = sandbox.requests()
        assert (entry["status"], entry["finished_at"]) == (None, None)

    def test_and_scripts_are_cleared(self, client: httpx.Client, sandbox: Sandbox, openai: Caller) -> None:
        openai.post(messages=HELLO)
        sandbox.script("openai", status=500, times=5)

        assert client.delete("/_requests").status_code == 200

        assert sandbox.requests() == []
        assert openai.post(messages=HELLO).status_code == 200

    def test_of_unknown_providers_are_not_listed(self, client: httpx.Client) -> None:
        client.post("/nobody/v1", json={})

        assert client.get("/_requests").json() == []
        assert client.get("/_requests?provider=nobody").status_code == 422
        assert client.put("/_requests").status_code == 405

    def test_are_capped_by_number_and_by_size(self) -> None:
        book = Book(kept=3, kept_bytes=100)

        for size in (10, 10, 10, 10, 95):
            book.enter("openai", "POST", "/", {}, b'"%b"' % (b"x" * size))

        listed = msgspec.json.decode(book.listing())
        assert [(entry["number"], entry["size_bytes"]) for entry in listed] == [(5, 97)]
        book.enter("openai", "POST", "/", {}, b"1")
        book.enter("openai", "POST", "/", {}, b"2")
        book.enter("openai", "POST", "/", {}, b"3")
        assert [entry["number"] for entry in msgspec.json.decode(book.listing())] == [6, 7, 8]


class TestLife:
    def test_fifty_hanging_calls_hold_up_nobody(self) -> None:
        sandbox = memory.sandbox.start()
        sandbox.script("openai", delay_s=60, times=50)
        body = {"model": "gpt-4o", "messages": HELLO}
        limits = httpx.Limits(max_connections=60)
        arrived = threading.Event()

        def hang(client: httpx.Client) -> str:
            try:
                client.post(PATHS["openai"], json=body, headers=HEADERS["openai"])
            except httpx.TransportError as error:
                return type(error).__name__
            return "answered"

        with (
            httpx.Client(base_url=sandbox.url, timeout=30, limits=limits, trust_env=False) as client,
            ThreadPoolExecutor(50) as pool,
        ):
            try:
                waiting = [pool.submit(hang, client) for _ in range(50)]
                deadline = time.monotonic() + 10
                while len(sandbox.requests("openai")) < 50 and time.monotonic() < deadline:
                    arrived.wait(0.01)
                assert len(sandbox.requests("openai")) == 50
                response = client.post(PATHS["openai"], json=body, headers=HEADERS["openai"])
                assert not any(future.done() for future in waiting)
            finally:
                sandbox.stop()
            endings = {future.result(timeout=5) for future in waiting}

        assert response.status_code == 200
        assert "answered" not in endings
        with pytest.raises(httpx.ConnectError):
            httpx.get(sandbox.url, trust_env=False)

    def test_takes_the_port_it_is_given(self) -> None:
        first = memory.sandbox.start()
        port = int(first.url.rsplit(":", 1)[1])
        try:
            with pytest.raises(OSError, match=r"[Aa]ddress already in use"):
                memory.sandbox.start(port)
        finally:
            first.stop()
        again = memory.sandbox.start(port)
        try:
            assert again.url == f"http://127.0.0.1:{port}" == first.url
            assert httpx.get(f"{again.url}/_requests", trust_env=False).json() == []
        finally:
            again.stop()
