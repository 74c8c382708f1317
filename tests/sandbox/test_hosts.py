"""The hosts of the chat completions protocol: what each refuses in its own words, and what it takes."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from memory.hosts import HOSTS
from memory.messages.prompt import Message, Prompt, Text
from memory.providers import ENTRIES, wire_module
from memory.providers.wire import Finished, Settings, Tool
from memory.sandbox import Sandbox
from tests.sandbox.conftest import HEADERS, PATHS

CALL_ID = "abcdefghi"
ASK = {"role": "user", "content": "Find it"}
NEXT = {"role": "user", "content": "And now?"}
DONE = {"role": "assistant", "content": "Done."}
SYSTEM = {"role": "system", "content": "Be brief."}
PICTURE = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
MODELS = {
    "mistral": "mistral-large-latest",
    "groq": "llama-3.3-70b-versatile",
    "deepseek": "deepseek-chat",
    "xai": "grok-4",
    "moonshot": "kimi-k2-0905-preview",
    "qwen": "qwen3.5-plus",
    "zhipu": "glm-4.7",
    "minimax": "MiniMax-M2",
    "together": "openai/gpt-oss-120b",
    "fireworks": "accounts/fireworks/models/kimi-k2",
    "openrouter": "anthropic/claude-sonnet-4.5",
    "huggingface": "meta-llama/Llama-4-Scout",
    "ollama": "gpt-oss:20b",
    "vllm": "gpt-oss-20b",
    "other": "any-model",
} | {host.id: host.model_id for host in HOSTS}
"""A model of each host that has no peculiar wishes."""


def called(*ids: str, arguments: str = '{"q": 1}', **more: Any) -> dict[str, Any]:
    calls = [
        {"id": call_id, "type": "function", "function": {"name": "find", "arguments": arguments}}
        for call_id in ids or (CALL_ID,)
    ]
    return {"role": "assistant", "content": "", "tool_calls": calls, **more}


def result(call_id: str = CALL_ID, content: Any = "found") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def post(client: httpx.Client, provider: str, *messages: Any, **more: Any) -> httpx.Response:
    body = {"model": MODELS[provider], "messages": [*messages], **more}
    return client.post(PATHS[provider], json=body, headers=HEADERS[provider])


TURN = (ASK, called(), result())
"""A history any host takes: a call, and its result at the end."""
DEEPSEEK_PARSER = "Failed to deserialize the JSON body into the target type: "
QWEN = "<400> InternalError.Algo.InvalidParameter: "
ZHIPU = "The messages parameter is illegal. Please check the documentation."
DASH_ORDER = "After the optional system message, conversation roles must alternate user/assistant/user/assistant/..."
THINKING = {"model": "deepseek-v4-pro"}
KIMI = {"model": "kimi-k2.5"}
GEMMA = {"model": "google/gemma-3-27b-it"}

# Host, messages, further keys of the body, status, and the message; it stands for all of the text unless it ends in …
REFUSED: dict[str, tuple[str, tuple[Any, ...], dict[str, Any], int, str]] = {
    "mistral id": (
        "mistral",
        (ASK, called("call_0fypS1hVX"), result("call_0fypS1hVX")),
        {},
        400,
        "Tool call id was call_0fypS1hVX but must be a-z, A-Z, 0-9, with a length of 9.",
    ),
    "mistral id of a result": (
        "mistral",
        (ASK, called(), result("a-b-c-d-e")),
        {},
        400,
        "Tool call id was a-b-c-d-e but must be a-z, A-Z, 0-9, with a length of 9.",
    ),
    "mistral user after tool": ("mistral", (*TURN, NEXT), {}, 400, "Unexpected role 'user' after role 'tool'"),
    "mistral system after tool": (
        "mistral",
        (*TURN, SYSTEM, NEXT),
        {},
        400,
        "Unexpected role 'system' after role 'tool'",
    ),
    "mistral orphan": ("mistral", (ASK, result()), {}, 400, "Unexpected role 'tool' after role 'user'"),
    "mistral orphan first": (
        "mistral",
        (SYSTEM, result()),
        {},
        400,
        "Unexpected role 'tool' after role 'system'",
    ),
    "mistral too few results": (
        "mistral",
        (ASK, called("aaaaaaaaa", "bbbbbbbbb"), result("aaaaaaaaa"), DONE, NEXT),
        {},
        400,
        "Not the same number of function calls and responses",
    ),
    "mistral no result": (
        "mistral",
        (ASK, called(), NEXT),
        {},
        400,
        "Not the same number of function calls and responses",
    ),
    "mistral too many results": (
        "mistral",
        (*TURN, result("bbbbbbbbb")),
        {},
        400,
        "Not the same number of function calls and responses",
    ),
    "mistral last": (
        "mistral",
        (ASK, DONE),
        {},
        400,
        "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant",
    ),
    "mistral thinking": (
        "mistral",
        (
            ASK,
            {
                "role": "assistant",
                "content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}],
            },
            NEXT,
        ),
        {},
        400,
        "Reasoning input is not enabled for this model",
    ),
    "mistral picture in a result": (
        "mistral",
        (ASK, called(), result(content=[{"type": "text", "text": "see"}, PICTURE])),
        {},
        400,
        "1 validation error for ToolMessage content.list[TextChunk].1.type Input should be <ChunkTypes.text: 'text'>",
    ),
    "mistral empty": (
        "mistral",
        (ASK, {"role": "assistant", "content": ""}, NEXT),
        {},
        400,
        "Assistant message must have either content or tool_calls, but not none.",
    ),
    "groq reasoning": (
        "groq",
        (ASK, {**DONE, "reasoning_content": ""}, NEXT),
        {},
        400,
        "'messages.1' : for 'role:assistant' the following must be satisfied[('messages.1' : property"
        " 'reasoning_content' is unsupported)]",
    ),
    "groq list": (
        "groq",
        ({"role": "system", "content": [{"type": "text", "text": "Be brief."}]}, ASK),
        {},
        400,
        "'messages.0' : for 'role:system' the following must be satisfied[('messages.0.content' : value must be a"
        " string)]",
    ),
    "groq picture in a result": (
        "groq",
        (ASK, called(), result(content=[PICTURE])),
        {},
        400,
        "'messages.2' : for 'role:tool' the following must be satisfied[('messages.2.content' : value must be a"
        " string)]",
    ),
    "groq request": ("groq", (ASK,), {"thinking": {}}, 400, "property 'thinking' is unsupported"),
    "deepseek reasoning": (
        "deepseek",
        TURN,
        THINKING,
        400,
        "The `reasoning_content` in the thinking mode must be passed back to the API.",
    ),
    "deepseek reasoning asked for": (
        "deepseek",
        TURN,
        {"thinking": {"type": "enabled"}},
        400,
        "The `reasoning_content` in the thinking mode must be passed back to the API.",
    ),
    "deepseek picture": (
        "deepseek",
        (ASK, DONE, {"role": "user", "content": [PICTURE]}),
        {},
        400,
        DEEPSEEK_PARSER + "messages[2]: unknown variant `image_url`, expected `text` at line 1 column …",
    ),
    "deepseek role": (
        "deepseek",
        (ASK, {"role": "developer", "content": "Be brief."}),
        {},
        400,
        DEEPSEEK_PARSER + "messages[1].role: unknown variant `developer`, expected one of `system`, `user`,"
        " `assistant`, `tool`, `latest_reminder` at …",
    ),
    "deepseek orphan": (
        "deepseek",
        (ASK, result()),
        {},
        400,
        "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'",
    ),
    "deepseek missing": (
        "deepseek",
        (ASK, called(), NEXT),
        {},
        400,
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'."
        " (insufficient tool messages following tool_calls message)",
    ),
    "xai empty": (
        "xai",
        (ASK, {"role": "assistant", "content": ""}, NEXT),
        {},
        400,
        "Invalid request content: Each message must have at least one content element.",
    ),
    "xai empty list": (
        "xai",
        (ASK, {"role": "assistant", "content": []}, NEXT),
        {},
        400,
        "Invalid request content: Each message must have at least one content element.",
    ),
    "moonshot reasoning": (
        "moonshot",
        (SYSTEM, *TURN),
        KIMI,
        400,
        "thinking is enabled but reasoning_content is missing in assistant tool call message at index 2",
    ),
    "moonshot reasoning that can't be off": (
        "moonshot",
        TURN,
        {"model": "kimi-k3", "thinking": {"type": "disabled"}},
        400,
        "thinking is enabled but reasoning_content is missing in assistant tool call message at index 1",
    ),
    "moonshot empty": (
        "moonshot",
        (ASK, {"role": "assistant", "content": ""}, NEXT),
        {},
        400,
        "The message at position 1 with role 'assistant' must not be empty",
    ),
    "moonshot part": (
        "moonshot",
        (SYSTEM, {"role": "user", "content": [{"type": "video_url", "video_url": {"url": "ms://a"}}]}),
        {},
        400,
        "the message at position 1 with role 'user' contains an invalid part type: video_url",
    ),
    "qwen arguments": (
        "qwen",
        (ASK, called(arguments='{"q": '), result()),
        {},
        400,
        QWEN + 'The "function.arguments" parameter of the code model must be in JSON format.',
    ),
    "qwen orphan": (
        "qwen",
        (ASK, result()),
        {},
        400,
        QWEN + 'messages with role "tool" must be a response to a preceeding message with "tool_calls".',
    ),
    "qwen missing": (
        "qwen",
        (ASK, called(), NEXT),
        {},
        400,
        QWEN + 'An assistant message with "tool_calls" must be followed by tool messages responding to each'
        ' "tool_call_id". The following tool_call_ids did not have response messages: message[2].role',
    ),
    "qwen role": (
        "qwen",
        ({"role": "developer", "content": "Be brief."}, ASK),
        {},
        400,
        "developer is not one of ['system', 'assistant', 'user', 'tool', 'function'] - 'messages.[0].role'",
    ),
    "zhipu empty": ("zhipu", (ASK, {"role": "assistant", "content": ""}, NEXT), {}, 400, ZHIPU),
    "zhipu same id": ("zhipu", (*TURN, DONE, *TURN), {}, 400, ZHIPU),
    "zhipu orphan": ("zhipu", (ASK, result()), {}, 400, ZHIPU),
    "zhipu first": ("zhipu", (SYSTEM, DONE, ASK), {}, 400, ZHIPU),
    "zhipu role": ("zhipu", ({"role": "developer", "content": "Be brief."}, ASK), {}, 400, ZHIPU),
    "zhipu part": (
        "zhipu",
        (ASK, DONE, {"role": "user", "content": [{**PICTURE, "text": "see"}]}),
        {},
        400,
        "request param validation error, Value error, message[2].content[0] has invalid field(s): text",
    ),
    "minimax unknown result": (
        "minimax",
        (ASK, called(), result(), result("call_function_g094w5htkglv_1")),
        {},
        400,
        "invalid params, tool result's tool id(call_function_g094w5htkglv_1) not found (2013)",
    ),
    "minimax late result": (
        "minimax",
        (ASK, called("a", "b"), result("a"), result("b"), DONE, result("a")),
        {},
        400,
        "invalid params, tool call result does not follow tool call (2013)",
    ),
    "minimax missing": (
        "minimax",
        (ASK, called(), NEXT),
        {},
        400,
        "invalid params, tool call and result not match (2013)",
    ),
    "minimax id": (
        "minimax",
        (ASK, called("functions.find:0"), result("functions.find:0")),
        {},
        400,
        "invalid params, tool call id is invalid (2013)",
    ),
    "minimax arguments": (
        "minimax",
        (ASK, called(arguments="{"), result()),
        {},
        400,
        f"invalid params, invalid function arguments json string, tool_call_id: {CALL_ID} (2013)",
    ),
    "minimax tool": (
        "minimax",
        (ASK,),
        {"tools": [{"type": "function", "function": {"name": "find"}}]},
        400,
        "invalid params, function parameters is empty (2013)",
    ),
    "fireworks request": (
        "fireworks",
        (ASK,),
        {"stream": True, "stream_options": {"include_usage": True}},
        400,
        "Extra inputs are not permitted, field: 'stream_options'",
    ),
    "fireworks message": (
        "fireworks",
        (ASK, {**DONE, "refusal": None}, NEXT),
        {},
        400,
        "Extra inputs are not permitted, field: 'messages[1].refusal'",
    ),
    "ollama null": ("ollama", (ASK, called(content=None), result()), {}, 400, "invalid message content type: <nil>"),
    "vllm cut arguments": (
        "vllm",
        (ASK, called(arguments='{"path": "notes'), result()),
        {},
        400,
        "Unterminated string starting at: line 1 column 10 (char 9)",
    ),
    "vllm blank arguments": (
        "vllm",
        (ASK, called(arguments=""), result()),
        {},
        400,
        "Expecting value: line 1 column 1 (char 0)",
    ),
    "vllm arguments that are no object": (
        "vllm",
        (ASK, called(arguments='"text"'), result()),
        {},
        400,
        "Can only get item pairs from a mapping.",
    ),
    "vllm roles": ("vllm", (SYSTEM, ASK, NEXT), GEMMA, 400, DASH_ORDER),
    "vllm late system": (
        "vllm",
        (ASK, DONE, SYSTEM, NEXT),
        {"model": "Qwen/Qwen3.5-35B"},
        400,
        "System message must be at the beginning.",
    ),
    "vllm two systems": (
        "vllm",
        (SYSTEM, SYSTEM, ASK),
        {"model": "Qwen/Qwen3.5-35B"},
        400,
        "System message must be at the beginning.",
    ),
}
ACCEPTED: dict[str, tuple[str, tuple[Any, ...], dict[str, Any]]] = {
    "mistral bridge": ("mistral", (*TURN, DONE, NEXT), {}),
    "mistral prefix": ("mistral", (ASK, {**DONE, "prefix": True}), {}),
    "mistral thinking": (
        "mistral",
        (ASK, {"role": "assistant", "content": [{"type": "thinking", "thinking": []}]}, NEXT),
        {"model": "magistral-medium-latest"},
    ),
    "groq picture": ("groq", ({"role": "user", "content": [PICTURE]},), {}),
    "groq reasoning of its own": ("groq", (ASK, {**DONE, "reasoning": "Hm"}, NEXT), {"model": "openai/gpt-oss-120b"}),
    "deepseek empty reasoning": ("deepseek", (ASK, called(reasoning_content=""), result()), THINKING),
    "deepseek thinking off": ("deepseek", TURN, {**THINKING, "thinking": {"type": "disabled"}}),
    "deepseek foreign keys": ("deepseek", (ASK, {**DONE, "refusal": None}, NEXT), {}),
    "xai calls without words": ("xai", TURN, {}),
    "moonshot reasoning": ("moonshot", (ASK, called(reasoning_content="Look"), result()), KIMI),
    "moonshot thinking off": ("moonshot", TURN, {**KIMI, "thinking": {"type": "disabled"}}),
    "moonshot picture": ("moonshot", ({"role": "user", "content": [PICTURE]},), KIMI),
    "qwen any JSON": ("qwen", (ASK, called(arguments="{}"), result()), {}),
    "zhipu other id": ("zhipu", (*TURN, DONE, ASK, called("b"), result("b")), {}),
    "fireworks reasoning": ("fireworks", (ASK, {**DONE, "reasoning_content": "Hm"}, NEXT), {}),
    "ollama empty text": ("ollama", TURN, {}),
    "ollama orphan": ("ollama", (ASK, result()), {}),
    "vllm any order elsewhere": ("vllm", (ASK, NEXT, SYSTEM), {}),
    "vllm turns": ("vllm", (SYSTEM, *TURN, DONE, NEXT), GEMMA),
    "openrouter long id": (
        "openrouter",
        (ASK, called("t" * 50), result("t" * 50)),
        {"model": "google/gemini-2.5-flash"},
    ),
    "together anything": ("together", (ASK, {**DONE, "reasoning": "Hm"}, NEXT), {}),
    "other orphan": ("other", (ASK, result()), {}),
}


def message_in(body: Any) -> str:
    """The message of an error body, whatever the shape; a list of details tells where."""
    if isinstance(body.get("error"), dict):
        return str(body["error"]["message"])
    return str(body.get("error") or body["message"])


class TestRefusals:
    @pytest.mark.parametrize("name", REFUSED)
    def test_are_worded_as_the_vendor_does(self, client: httpx.Client, name: str) -> None:
        provider, messages, more, status, message = REFUSED[name]

        response = post(client, provider, *messages, **more)

        assert response.status_code == status, response.text
        said = message_in(response.json())
        assert said == message if not message.endswith("…") else said.startswith(message[:-1])

    @pytest.mark.parametrize("name", ACCEPTED)
    def test_spare_what_the_vendor_takes(self, client: httpx.Client, name: str) -> None:
        provider, messages, more = ACCEPTED[name]

        response = post(client, provider, *messages, **more)

        assert response.status_code == 200, response.text

    @pytest.mark.parametrize(
        ("message", "role", "place"),
        [
            ({**DONE, "reasoning_content": "x"}, "assistant", ["reasoning_content"]),
            ({**DONE, "refusal": None}, "assistant", ["refusal"]),
            ({**DONE, "name": "ann"}, "assistant", ["name"]),
            ({**ASK, "tool_calls": None}, "user", ["tool_calls"]),
        ],
    )
    def test_of_mistral_name_the_key(
        self, client: httpx.Client, message: dict[str, Any], role: str, place: list[str]
    ) -> None:
        response = post(client, "mistral", ASK, message, NEXT)

        key = place[-1]
        detail = {
            "type": "extra_forbidden",
            "loc": ["body", "messages", 1, role, *place],
            "msg": "Extra inputs are not permitted",
            "input": message[key],
        }
        assert (response.status_code, response.json()) == (422, {"detail": [detail]})

    @pytest.mark.parametrize(
        ("provider", "name", "body"),
        [
            (
                "mistral",
                "mistral user after tool",
                {
                    "object": "error",
                    "message": "Unexpected role 'user' after role 'tool'",
                    "type": "invalid_request_message_order",
                    "param": None,
                    "code": "3230",
                },
            ),
            (
                "xai",
                "xai empty",
                {
                    "code": "Client specified an invalid argument",
                    "error": "Invalid request content: Each message must have at least one content element.",
                },
            ),
            ("zhipu", "zhipu empty", {"error": {"code": "1214", "message": ZHIPU}}),
            (
                "vllm",
                "vllm roles",
                {"object": "error", "message": DASH_ORDER, "type": "BadRequestError", "param": None, "code": 400},
            ),
        ],
    )
    def test_have_the_shape_of_the_vendors(
        self, client: httpx.Client, provider: str, name: str, body: dict[str, Any]
    ) -> None:
        _, messages, more, _, _ = REFUSED[name]

        assert post(client, provider, *messages, **more).json() == body


class TestOpenRouter:
    @pytest.mark.parametrize(
        ("model", "title", "messages", "inner"),
        [
            ("mistralai/mistral-large", "Mistral", (ASK, result(), NEXT), "Unexpected role 'tool' after role 'user'"),
            (
                "qwen/qwen3-coder",
                "Alibaba",
                (ASK, called(arguments=""), result()),
                QWEN + 'The "function.arguments" parameter of the code model must be in JSON format.',
            ),
            (
                "minimax/minimax-m2",
                "Minimax",
                (ASK, called(), NEXT),
                "invalid params, tool call and result not match (2013)",
            ),
            (
                "openai/gpt-4o",
                "OpenAI",
                (ASK, called("i" * 41), result("i" * 41)),
                "Invalid 'messages[1].tool_calls[0].id': string too long. Expected a string with maximum length 40, but"
                " got a string with length 41 instead.",
            ),
        ],
    )
    def test_wraps_what_its_upstream_says(
        self, client: httpx.Client, model: str, title: str, messages: tuple[Any, ...], inner: str
    ) -> None:
        response = post(client, "openrouter", *messages, model=model)

        assert response.status_code == 400
        error = response.json()["error"]
        assert (error["message"], error["code"]) == ("Provider returned error", 400)
        assert error["metadata"]["provider_name"] == title
        assert message_in(json.loads(error["metadata"]["raw"])) == inner

    def test_refuses_reasoning_that_comes_twice(self, client: httpx.Client) -> None:
        details = [{"type": "reasoning.encrypted", "id": "rs_0ad2", "data": "x", "format": "openai-responses-v1"}]
        turn = {**DONE, "reasoning_details": details}

        assert post(client, "openrouter", ASK, turn, NEXT).status_code == 200
        error = post(client, "openrouter", ASK, turn, NEXT, turn, NEXT).json()["error"]

        assert message_in(json.loads(error["metadata"]["raw"])) == "Duplicate item found with id rs_0ad2."

    def test_passes_on_what_the_upstream_knows(self, client: httpx.Client) -> None:
        turn = {**DONE, "name": "ann", "reasoning": "Hm", "refusal": None}

        assert post(client, "openrouter", ASK, turn, NEXT, model="mistralai/mistral-large").status_code == 200


class TestXaiResponses:
    def test_refuse_null(self, client: httpx.Client) -> None:
        item = {"type": "reasoning", "id": "rs_1", "summary": [], "content": None}
        body = {"model": "grok-4", "input": [item, {"role": "user", "content": "Go on"}]}

        response = client.post("/xai/v1/responses", json=body, headers=HEADERS["xai"])

        assert response.status_code == 422
        assert response.json()["error"].endswith("data did not match any variant of untagged enum ModelInput")
        del item["content"]
        assert client.post("/xai/v1/responses", json=body, headers=HEADERS["xai"]).status_code == 200


TOOL = Tool("find", "Finds", {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]})


class TestAnswers:
    """Every provider below the address that the site's sandbox connections have."""

    @pytest.mark.parametrize("says", ["Hello there", "Please find and find"])
    @pytest.mark.parametrize("provider", ENTRIES)
    def test_are_read_alike_whole_and_in_any_pieces(
        self, client: httpx.Client, sandbox: Sandbox, provider: str, says: str
    ) -> None:
        entry = ENTRIES[provider]
        module = wire_module(entry.protocol)
        model_id = {
            "anthropic": "claude-sonnet-4-5",
            "openai": "gpt-4o",
            "azure": "gpt-4o",
            "cerebras": "gpt-oss-120b",
            "bedrock": "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
            "cohere": "command-a-03-2025",
            "gemini": "gemini-2.5-flash",
            "vertex": "gemini-2.5-flash",
            "mistral": "magistral-medium-latest",
            "moonshot": "kimi-k2.6",
        }.get(provider) or MODELS[provider]
        settings = Settings(model_id, max_tokens=500, tools=(TOOL,))
        encoded = module.encode_request(Prompt((Message("user", (Text(says),)),)), settings, provider=provider)

        whole = client.post(f"/{provider}/v1{encoded.path}", content=encoded.body, headers=HEADERS[provider])
        assert whole.status_code == 200, whole.text
        reply = module.decode_reply(whole.json(), provider=provider)
        assert reply.finish_reason == ("tool-calls" if "find" in says else "stop")

        streamed = module.as_stream(encoded, provider=provider)
        for size in (1, 7, 4096):
            sandbox.script(provider, pieces=size)
            path = f"/{provider}/v1{streamed.path}"
            with client.stream("POST", path, content=streamed.body, headers=HEADERS[provider]) as response:
                assert response.status_code == 200
                (*_, last) = module.decode_stream(response.iter_raw(), provider=provider)
            assert isinstance(last, Finished)
            assert (last.reply.finish_reason, len(last.reply.parts)) == (reply.finish_reason, len(reply.parts))
            assert [getattr(part, "text", None) for part in last.reply.parts] == [
                getattr(part, "text", None) for part in reply.parts
            ]

    @pytest.mark.parametrize(
        ("provider", "prefix"),
        [("moonshot", "functions.find:0"), ("minimax", "call_function_"), ("deepseek", "call_00_")],
    )
    def test_have_the_hosts_ids(self, client: httpx.Client, provider: str, prefix: str) -> None:
        tools = [{"type": "function", "function": {"name": "find", "parameters": {"type": "object"}}}]

        (choice,) = post(client, provider, {"role": "user", "content": "find"}, tools=tools).json()["choices"]

        assert choice["message"]["tool_calls"][0]["id"].startswith(prefix)

    @pytest.mark.parametrize(
        ("provider", "more", "key"),
        [
            ("deepseek", {"model": "deepseek-reasoner"}, "reasoning_content"),
            ("moonshot", KIMI, "reasoning_content"),
            ("zhipu", {}, "reasoning_content"),
            ("groq", {"model": "qwen/qwen3-32b", "reasoning_format": "parsed"}, "reasoning"),
            ("openrouter", {"reasoning": {"effort": "low"}}, "reasoning"),
            ("ollama", {}, "reasoning"),
            ("vllm", {}, "reasoning_content"),
        ],
    )
    def test_show_reasoning_under_the_hosts_key(
        self, client: httpx.Client, provider: str, more: dict[str, Any], key: str
    ) -> None:
        (choice,) = post(client, provider, ASK, **more).json()["choices"]

        assert choice["message"][key] == "The user wants to be repeated."


class TestKeys:
    @pytest.mark.parametrize("provider", MODELS)
    def test_are_asked_for_where_the_vendor_does(self, client: httpx.Client, provider: str) -> None:
        response = client.post(PATHS[provider], json={"model": MODELS[provider], "messages": [ASK]})

        assert response.status_code == (200 if provider in ("ollama", "vllm") else 401)
