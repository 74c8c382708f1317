"""What the pretend Anthropic refuses, each with the nearest request it accepts."""

import base64
from typing import Any

import httpx
import pytest

from memory.sandbox import Sandbox
from tests.sandbox.conftest import HEADERS, PATHS, Caller

Message = dict[str, Any]
FOREIGN_SIGNATURE = base64.b64encode(b"a signature of unknown origin, long enough").decode()
MARK = {"cache_control": {"type": "ephemeral"}}


def user(*content: Any) -> Message:
    return {"role": "user", "content": list(content)}


def assistant(*content: Any) -> Message:
    return {"role": "assistant", "content": list(content)}


def text(value: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": value, **more}


def call(call_id: str, **more: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "look_up", "input": {}, **more}


def result(call_id: str, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": "done", **more}


def thought(signature: str | None = FOREIGN_SIGNATURE, value: str = "Hm.") -> dict[str, Any]:
    block = {"type": "thinking", "thinking": value}
    return block if signature is None else {**block, "signature": signature}


ASK = user(text("Look it up"))
NEXT = user(text("Go on"))
LOOP = [ASK, assistant(text("One moment."), call("toolu_1")), user(result("toolu_1"))]
NO_PREFILL = "This model does not support assistant message prefill. The conversation must end with a user message."
ALL_FILLED = "messages.1: all messages must have non-empty content except for the optional final assistant message"
SYSTEM_ROLE = (
    'messages: Unexpected role "system". The Messages API accepts a top-level `system` parameter, not "system" as an'
    " input message role."
)

REFUSED: dict[str, tuple[list[Message], str]] = {
    "call id with a colon": (
        [ASK, assistant(text("Hm."), call("functions.look_up:0")), user(result("functions.look_up:0"))],
        "messages.1.content.1.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
    ),
    "empty call id": (
        [ASK, assistant(call("")), user(result(""))],
        "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
    ),
    "result id with a bar": (
        [ASK, assistant(call("call_1")), user(result("call_1|fc_1"))],
        "messages.2.content.0.tool_result.tool_use_id: String should match pattern '^[a-zA-Z0-9_-]+$'",
    ),
    "server tool id of another host": (
        [ASK, assistant({"type": "server_tool_use", "id": "call_1", "name": "web_search", "input": {}}), NEXT],
        "messages.1.content.0.server_tool_use.id: String should match pattern '^srvtoolu_[a-zA-Z0-9_]+$'",
    ),
    "server result without its call": (
        [ASK, assistant({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}), NEXT],
        "messages.1.content.0: unexpected `tool_use_id` found in `web_search_tool_result` blocks: srvtoolu_1. Each"
        " `web_search_tool_result` block must have a corresponding `server_tool_use` block before it.",
    ),
    "same id twice in one turn": (
        [ASK, assistant(call("toolu_1"), call("toolu_1")), user(result("toolu_1"))],
        "messages.1.content.1: `tool_use` ids must be unique",
    ),
    "same id twice in a turn of two messages": (
        [ASK, assistant(call("toolu_1")), assistant(text("And"), call("toolu_1")), user(result("toolu_1"))],
        "messages.2.content.1: `tool_use` ids must be unique",
    ),
    "same id in two turns, the first unanswered": (
        [ASK, assistant(call("toolu_1")), NEXT, assistant(call("toolu_1")), user(result("toolu_1"))],
        "messages.3.content.0: `tool_use` ids must be unique",
    ),
    "two results for one call": (
        [ASK, assistant(call("toolu_1")), user(result("toolu_1"), result("toolu_1"))],
        "messages.2.content.1: each tool_use must have a single result. Found multiple `tool_result` blocks with id:"
        " toolu_1",
    ),
    "call without result": (
        [ASK, assistant(call("toolu_1"), call("toolu_2"), call("toolu_3")), user(result("toolu_2"))],
        "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1, toolu_3. Each"
        " `tool_use` block must have a corresponding `tool_result` block in the next message.",
    ),
    "call at the end": (
        [ASK, assistant(call("toolu_1"))],
        "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1. Each `tool_use`"
        " block must have a corresponding `tool_result` block in the next message.",
    ),
    "results spread over two messages": (
        [ASK, assistant(call("toolu_1"), call("toolu_2")), user(result("toolu_2")), user(result("toolu_1"))],
        "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1. Each `tool_use`"
        " block must have a corresponding `tool_result` block in the next message.",
    ),
    "text before the results": (
        [ASK, assistant(call("toolu_1"), call("toolu_2")), user(result("toolu_1"), text("and"), result("toolu_2"))],
        "messages.2: Did not find 2 `tool_result` block(s) at the beginning of this message. Messages following"
        " `tool_use` blocks must begin with a matching number of `tool_result` blocks.",
    ),
    "result without call": (
        [user(text("Hello")), assistant(text("Hi")), user(text("So"), result("toolu_gone"))],
        "messages.2.content.1: unexpected `tool_use_id` found in `tool_result` blocks: toolu_gone. Each `tool_result`"
        " block must have a corresponding `tool_use` block in the previous message.",
    ),
    "result one message late": (
        [*LOOP, user(result("toolu_1"))],
        "messages.3.content.0: unexpected `tool_use_id` found in `tool_result` blocks: toolu_1. Each `tool_result`"
        " block must have a corresponding `tool_use` block in the previous message.",
    ),
    "input that is text": (
        [ASK, assistant(call("toolu_1", input="{}")), user(result("toolu_1"))],
        "messages.1.content.0.tool_use.input: Input should be a valid dictionary",
    ),
    "input that is a list": (
        [ASK, assistant(call("toolu_1", input=[])), user(result("toolu_1"))],
        "messages.1.content.0.tool_use.input: Input should be a valid dictionary",
    ),
    "thinking without signature": (
        [ASK, assistant(thought(None), text("Yes")), NEXT],
        "messages.1.content.0.thinking.signature: Field required",
    ),
    "empty thinking without signature": (
        [ASK, assistant(thought(None, ""), text("Yes")), NEXT],
        "messages.1.content.0.thinking: each thinking block must contain thinking",
    ),
    "empty signature": (
        [ASK, assistant(thought(""), text("Yes")), NEXT],
        "messages.1.content.0: Invalid `signature` in `thinking` block",
    ),
    "short foreign signature": (
        [ASK, assistant(text("So"), thought("SIG-OPUS-1"), text("Yes")), NEXT],
        "messages.1.content.1: Invalid `signature` in `thinking` block",
    ),
    "long signature that is not base64": (
        [ASK, assistant(thought("reasoning of another provider, in its own words"), text("Yes")), NEXT],
        "messages.1.content.0: Invalid `signature` in `thinking` block",
    ),
    "redacted thinking that is not sealed": (
        [ASK, assistant({"type": "redacted_thinking", "data": "secret"}, text("Yes")), NEXT],
        "messages.1.content.0: Invalid `signature` in `redacted_thinking` block",
    ),
    "empty text": (
        [ASK, assistant(text(""), call("toolu_1")), user(result("toolu_1"))],
        "messages: text content blocks must be non-empty",
    ),
    "empty text in a result": (
        [ASK, assistant(call("toolu_1")), user(result("toolu_1", content=[text("")]))],
        "messages: text content blocks must be non-empty",
    ),
    "blank text": (
        [ASK, assistant(text(" \n")), NEXT],
        "messages: text content blocks must contain non-whitespace text",
    ),
    "blank content": (
        [{"role": "user", "content": "  "}],
        "messages: text content blocks must contain non-whitespace text",
    ),
    "empty content list": ([ASK, assistant(), NEXT], ALL_FILLED),
    "empty content text": ([ASK, {"role": "assistant", "content": ""}, NEXT], ALL_FILLED),
    "empty user message at the end": ([ASK, user()], ALL_FILLED),
    "no messages": ([], "messages: at least one message is required"),
    "five cache markers": (
        [
            user(text("one", **MARK), text("two", **MARK), text("three", **MARK)),
            assistant(text("four", **MARK)),
            user(text("five", **MARK)),
        ],
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    ),
    "cache marker on an empty text": (
        [ASK, assistant(text("Yes")), user(text("So"), text("", **MARK))],
        "messages.2.content.1.text: cache_control cannot be set for empty text blocks",
    ),
    "role system": ([{"role": "system", "content": "Be brief."}, ASK], SYSTEM_ROLE),
    "role tool": (
        [ASK, {"role": "tool", "content": "done"}],
        'messages: Unexpected role "tool". Allowed roles are "user" or "assistant".',
    ),
    "foreign key in a block": (
        [ASK, assistant(call("toolu_1", text="")), user(result("toolu_1"))],
        "messages.1.content.0.tool_use.text: Extra inputs are not permitted",
    ),
    "foreign key in a block of a result": (
        [ASK, assistant(call("toolu_1")), user(result("toolu_1", content=[text("a", id="x")]))],
        "messages.2.content.0.tool_result.content.0.text.id: Extra inputs are not permitted",
    ),
    "foreign key in a message": (
        [ASK, {**assistant(text("Yes")), "reasoning_content": "Hm."}, NEXT],
        "messages.1.reasoning_content: Extra inputs are not permitted",
    ),
    "missing key": ([user({"type": "text"})], "messages.0.content.0.text.text: Field required"),
    "block without type": ([user({"text": "Hello"})], "messages.0.content.0.type: Field required"),
    "call in a user message": (
        [user(call("toolu_1"))],
        "messages.0.content.0: `tool_use` blocks can only be in `assistant` messages",
    ),
    "call without name": (
        [ASK, assistant(call("toolu_1", name="")), user(result("toolu_1"))],
        "messages.1.content.0.tool_use.name: String should have at least 1 character",
    ),
    "picture of an unknown kind": (
        [user({"type": "image", "source": {"type": "base64", "media_type": "image/bmp", "data": "AAAA"}})],
        "messages.0.content.0.image.source.base64.media_type: Input should be 'image/gif' or 'image/jpeg' or"
        " 'image/png' or 'image/webp'",
    ),
    "picture over 5 MB": (
        [user({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 7_000_000}})],
        "messages.0.content.0.image.source.base64: image exceeds 5 MB maximum: 5250000 bytes > 5242880 bytes",
    ),
}

ACCEPTED: dict[str, list[Message]] = {
    "ids of other makers": [ASK, assistant(call("call_1"), call("t" * 60)), user(result("t" * 60), result("call_1"))],
    "text behind the results": [ASK, assistant(call("toolu_1")), user(result("toolu_1"), text("Thanks"))],
    "same id in two turns with their own results": [*LOOP, *LOOP[1:]],
    "two assistant messages, both answered in one": [
        ASK,
        assistant(call("toolu_1")),
        assistant(call("toolu_2")),
        user(result("toolu_1"), result("toolu_2")),
    ],
    "two user messages": [ASK, NEXT],
    "assistant first": [assistant(text("Welcome back")), NEXT],
    "result without content": [
        ASK,
        assistant(call("toolu_1")),
        user({"type": "tool_result", "tool_use_id": "toolu_1"}),
    ],
    "empty result": [ASK, assistant(call("toolu_1")), user(result("toolu_1", content="", is_error=True))],
    "signed thinking of unknown origin": [ASK, assistant(thought(), text("Yes")), NEXT],
    "empty signed thinking": [ASK, assistant(thought(value=""), text("Yes")), NEXT],
    "sealed redacted thinking": [
        ASK,
        assistant({"type": "redacted_thinking", "data": FOREIGN_SIGNATURE}, text("Yes")),
        NEXT,
    ],
    "four cache markers": [
        user(text("one", **MARK), text("two", **MARK)),
        assistant(text("three", **MARK)),
        user(text("four", **MARK)),
    ],
    "prefill": [ASK, assistant(text("The answer is"))],
    "empty message at the end": [ASK, assistant()],
    "server call and its result": [
        ASK,
        assistant(
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
            {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
            text("Found"),
        ),
        NEXT,
    ],
    "remote call and its result": [
        ASK,
        assistant(
            {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "ask", "input": {}, "server_name": "wiki"},
            {"type": "mcp_tool_result", "tool_use_id": "mcptoolu_1", "content": [], "is_error": False},
        ),
        NEXT,
    ],
    "history with calls, no tools declared": LOOP,
}


class TestHistories:
    @pytest.mark.parametrize("name", REFUSED)
    def test_are_refused_in_the_vendors_words(self, anthropic: Caller, name: str) -> None:
        messages, message = REFUSED[name]

        assert anthropic.refusal(messages=messages) == message

    @pytest.mark.parametrize("name", ACCEPTED)
    def test_are_accepted(self, anthropic: Caller, name: str) -> None:
        anthropic.accepted(messages=ACCEPTED[name])

    def test_error_body_is_the_vendors(self, anthropic: Caller) -> None:
        response = anthropic.post(messages=[])

        assert response.json() == {
            "type": "error",
            "error": {"type": "invalid_request_error", "message": "messages: at least one message is required"},
            "request_id": response.headers["request-id"],
        }
        assert response.headers["request-id"].startswith("req_")

    def test_with_a_block_of_another_format_are_refused(self, anthropic: Caller) -> None:
        message = anthropic.refusal(messages=[user({"type": "input_text", "text": "Hello"})])

        assert message.startswith("messages.0.content.0: Input tag 'input_text' found using 'type' does not match")


class TestModels:
    @pytest.mark.parametrize("model", ["claude-opus-4-6", "claude-sonnet-4-6", "claude-opus-4-8", "claude-fable-5"])
    def test_without_prefill_must_end_with_a_user(self, anthropic: Caller, model: str) -> None:
        assert anthropic.refusal(model=model, messages=[ASK, assistant(text("The"))]) == NO_PREFILL

    @pytest.mark.parametrize("thinking", [{"type": "enabled", "budget_tokens": 1024}, {"type": "adaptive"}])
    def test_that_think_take_no_prefill(self, anthropic: Caller, thinking: dict[str, Any]) -> None:
        assert anthropic.refusal(thinking=thinking, messages=[ASK, assistant(text("The"))]) == NO_PREFILL

    def test_go_on_behind_a_paused_turn(self, anthropic: Caller) -> None:
        paused = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
        thinking = {"type": "enabled", "budget_tokens": 1024}

        anthropic.accepted(thinking=thinking, messages=[ASK, assistant(thought(), paused)])

    def test_with_prefill_refuse_white_space_at_its_end(self, anthropic: Caller) -> None:
        message = anthropic.refusal(messages=[ASK, assistant(text("One, two, \n"))])

        assert message == "messages: final assistant content cannot end with trailing whitespace"

    def test_refuse_thinking_at_the_end_when_it_is_off(self, anthropic: Caller) -> None:
        message = anthropic.refusal(messages=[ASK, assistant(thought(), text("Yes"))])

        assert message == (
            "messages.1.content.0: When thinking is disabled, an `assistant` message in the final position cannot"
            " contain `thinking`. To use thinking blocks, enable `thinking` in your request."
        )

    def test_of_old_start_with_a_user(self, anthropic: Caller) -> None:
        messages = [assistant(text("Welcome")), NEXT]

        refused = anthropic.refusal(model="claude-3-haiku-20240307", messages=messages)

        assert refused == 'messages: first message must use the "user" role'
        anthropic.accepted(model="claude-3-haiku-20240307", messages=[ASK, *messages])

    def test_take_a_system_message_only_as_opus_4_8(self, anthropic: Caller) -> None:
        rule = {"role": "system", "content": [text("Be brief.")]}
        messages = [ASK, rule, rule, assistant(text("Yes.")), NEXT, rule]

        anthropic.accepted(model="claude-opus-4-8", messages=messages)
        assert anthropic.refusal(model="claude-opus-4-6", messages=messages) == SYSTEM_ROLE
        assert anthropic.refusal(model="claude-opus-4-8", messages=[rule, ASK]) == SYSTEM_ROLE

    def test_with_manual_thinking_want_it_first_in_the_open_loop(self, anthropic: Caller) -> None:
        thinking = {"type": "enabled", "budget_tokens": 1024}

        assert anthropic.refusal(thinking=thinking, messages=LOOP) == (
            "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `text`. When `thinking`"
            " is enabled, a final `assistant` message must start with a thinking block (preceeding the lastmost set of"
            " `tool_use` and `tool_result` blocks)."
        )
        lead = [ASK, assistant(thought(), call("toolu_1")), user(result("toolu_1"))]
        anthropic.accepted(thinking=thinking, messages=lead)
        anthropic.accepted(thinking=thinking, messages=[*lead, assistant(call("toolu_2")), user(result("toolu_2"))])
        anthropic.accepted(thinking=thinking, messages=[*LOOP, assistant(text("Done.")), NEXT])
        anthropic.accepted(thinking={"type": "adaptive"}, model="claude-opus-4-6", messages=LOOP)


class TestSignatures:
    THINKING: dict[str, Any] = {"thinking": {"type": "enabled", "budget_tokens": 1024}}

    def turn(self, anthropic: Caller, **more: Any) -> list[Message]:
        reply = anthropic.accepted(**self.THINKING, messages=[ASK], **more)
        assert [block["type"] for block in reply["content"]] == ["thinking", "text"]
        return [ASK, {"role": "assistant", "content": reply["content"]}, NEXT]

    def test_of_its_own_come_back(self, anthropic: Caller) -> None:
        anthropic.accepted(messages=self.turn(anthropic))

    def test_hold_for_the_same_model_under_another_name(self, anthropic: Caller) -> None:
        anthropic.accepted(model="claude-sonnet-4-5-20250929", messages=self.turn(anthropic))

    def test_do_not_hold_for_another_model(self, anthropic: Caller) -> None:
        messages = self.turn(anthropic, model="claude-opus-4-8")

        refused = anthropic.refusal(model="claude-fable-5", messages=messages)

        assert refused == "messages.1.content.0: Invalid `signature` in `thinking` block"

    def test_seal_the_text_of_the_latest_turn(self, anthropic: Caller) -> None:
        messages = self.turn(anthropic)
        messages[1]["content"][0]["thinking"] += " "

        assert anthropic.refusal(messages=messages) == (
            "messages.1.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be"
            " modified. These blocks must remain as they were in the original response."
        )

    def test_seal_the_text_of_earlier_turns(self, anthropic: Caller) -> None:
        messages = self.turn(anthropic)
        messages[1]["content"][0]["thinking"] += " "

        refused = anthropic.refusal(messages=[*messages, assistant(text("Yes.")), NEXT])

        assert refused == "messages.1.content.0: Invalid `signature` in `thinking` block"


class TestRequests:
    @pytest.mark.parametrize(
        ("body", "message"),
        [
            ({"model": None}, "model: Input should be a valid string"),
            ({"max_tokens": 0}, "max_tokens: Input should be greater than or equal to 1"),
            ({"max_tokens": "many"}, "max_tokens: Input should be a valid integer"),
            ({"reasoning_effort": "low"}, "reasoning_effort: Extra inputs are not permitted"),
            ({"system": [text("")]}, "system: text content blocks must be non-empty"),
            ({"tools": [{"name": "look_up"}]}, "tools.0.custom.input_schema: Field required"),
            (
                {"tools": [{"name": "look.up", "input_schema": {"type": "object"}}]},
                "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'",
            ),
            (
                {"tools": [{"name": "look_up", "input_schema": {}, "parameters": {}}]},
                "tools.0.custom.parameters: Extra inputs are not permitted",
            ),
        ],
    )
    def test_are_refused_in_the_vendors_words(self, anthropic: Caller, body: dict[str, Any], message: str) -> None:
        assert anthropic.refusal(messages=[ASK], **body) == message

    @pytest.mark.parametrize("key", ["model", "max_tokens", "messages"])
    def test_need_their_keys(self, client: httpx.Client, key: str) -> None:
        body = {"model": "claude-sonnet-4-5", "max_tokens": 9, "messages": [ASK]}
        body.pop(key)

        response = client.post(PATHS["anthropic"], json=body, headers=HEADERS["anthropic"])

        assert (response.status_code, response.json()["error"]["message"]) == (400, f"{key}: Field required")

    def test_need_any_key(self, client: httpx.Client, sandbox: Sandbox) -> None:
        body = {"model": "claude-sonnet-4-5", "max_tokens": 9, "messages": [ASK]}

        response = client.post(PATHS["anthropic"], json=body, headers={"anthropic-version": "2023-06-01"})

        assert response.status_code == 401
        assert response.json()["type"] == "error"
        assert response.json()["error"] == {"type": "authentication_error", "message": "x-api-key header is required"}

    def test_need_a_version(self, client: httpx.Client) -> None:
        response = client.post(PATHS["anthropic"], json={}, headers={"x-api-key": "any"})

        assert (response.status_code, response.json()["error"]["message"]) == (
            400,
            "anthropic-version: header is required",
        )

    @pytest.mark.parametrize(
        ("raw", "message"),
        [
            (
                b'{"model": "claude",\n "messages": [{"role": "user", "content": "ok \\ud83d\\ude80 cut \\ud83d"}]}',
                "The request body is not valid JSON: no low surrogate in string: line 2 column 64 (char 83)",
            ),
            (
                b'{"a": "\\ude80"}',
                "The request body is not valid JSON: no low surrogate in string: line 1 column 8 (char 7)",
            ),
            (
                b'{"a": "\xed\xa0\xbd"}',
                "The request body is not valid JSON: str is not valid UTF-8: surrogates not allowed: line 1 column 1"
                " (char 0)",
            ),
        ],
    )
    def test_with_half_an_emoji_say_where(self, client: httpx.Client, raw: bytes, message: str) -> None:
        response = client.post(PATHS["anthropic"], content=raw, headers=HEADERS["anthropic"])

        assert (response.status_code, response.json()["error"]["message"]) == (400, message)

    @pytest.mark.parametrize("raw", [b"", b"{", b"[1, 2", b'{"a": NaN}', b"[" * 100_000, b"[]", b"null"])
    def test_that_are_no_json_object_are_refused(self, client: httpx.Client, raw: bytes) -> None:
        response = client.post(PATHS["anthropic"], content=raw, headers=HEADERS["anthropic"])

        assert response.status_code == 400
        assert response.json()["error"]["message"].startswith("The request body is not valid JSON: ")

    def test_over_32_mb_are_refused(self, client: httpx.Client, sandbox: Sandbox) -> None:
        response = client.post(PATHS["anthropic"], content=b" " * (33 * 1024 * 1024), headers=HEADERS["anthropic"])

        assert (response.status_code, response.json()["error"]["type"]) == (413, "request_too_large")
