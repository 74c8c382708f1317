"""What the pretend OpenAI refuses, each with the nearest request it accepts."""

from typing import Any

import httpx
import pytest

from tests.sandbox.conftest import HEADERS, PATHS, Caller

Message = dict[str, Any]
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
ASK = {"role": "user", "content": "Look it up"}
NEXT = {"role": "user", "content": "Go on"}
PATTERN = "string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."
PARTS = "Supported values are: 'text', 'image_url', 'input_audio', 'refusal', 'audio', and 'file'."
ORPHAN = "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
MISSING = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The"
    " following tool_call_ids did not have response messages: "
)


def call(call_id: str, name: str = "look_up", arguments: Any = "{}") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def calls(*made: dict[str, Any]) -> Message:
    return {"role": "assistant", "content": None, "tool_calls": list(made)}


def result(call_id: str, content: Any = "done") -> Message:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def answered(made: dict[str, Any]) -> list[Message]:
    return [ASK, calls(made), result(made["id"])]


# name: (messages, message, param, code)
REFUSED: dict[str, tuple[list[Message], str, str | None, str | None]] = {
    "call id of 41": (
        answered(call("c" * 41)),
        "Invalid 'messages[1].tool_calls[0].id': string too long. Expected a string with maximum length 40, but got a"
        " string with length 41 instead.",
        "messages[1].tool_calls[0].id",
        "string_above_max_length",
    ),
    "empty call id": (
        [ASK, calls(call("")), result("")],
        "Invalid 'messages[1].tool_calls[0].id': empty string. Expected a string with minimum length 1, but got an"
        " empty string instead.",
        "messages[1].tool_calls[0].id",
        "empty_string",
    ),
    "empty result id": (
        [ASK, calls(call("call_1")), result("")],
        "Invalid 'messages[2].tool_call_id': empty string. Expected a string with minimum length 1, but got an empty"
        " string instead.",
        "messages[2].tool_call_id",
        "empty_string",
    ),
    "tool name with a dot": (
        answered(call("call_1", "look.up")),
        f"Invalid 'messages[1].tool_calls[0].function.name': {PATTERN}",
        "messages[1].tool_calls[0].function.name",
        "invalid_value",
    ),
    "tool name of 65": (
        answered(call("call_1", "n" * 65)),
        "Invalid 'messages[1].tool_calls[0].function.name': string too long. Expected a string with maximum length 64,"
        " but got a string with length 65 instead.",
        "messages[1].tool_calls[0].function.name",
        "string_above_max_length",
    ),
    "empty tool name": (
        answered(call("call_1", "")),
        "Invalid 'messages[1].tool_calls[0].function.name': empty string. Expected a string with minimum length 1, but"
        " got an empty string instead.",
        "messages[1].tool_calls[0].function.name",
        "empty_string",
    ),
    "name with a blank": (
        [{**ASK, "name": "Ann Lee"}],
        f"Invalid 'messages[0].name': {PATTERN}",
        "messages[0].name",
        "invalid_value",
    ),
    "arguments that are no text": (
        answered(call("call_1", arguments={})),
        "Invalid type for 'messages[1].tool_calls[0].function.arguments': expected a string, but got an object"
        " instead.",
        "messages[1].tool_calls[0].function.arguments",
        "invalid_type",
    ),
    "result without call": ([ASK, result("call_1"), NEXT], ORPHAN, "messages.[1].role", None),
    "result of another call": (
        [ASK, calls(call("call_1")), result("call_1"), result("call_2")],
        ORPHAN,
        "messages.[3].role",
        None,
    ),
    "result behind a user message": (
        [*answered(call("call_1")), NEXT, result("call_1")],
        ORPHAN,
        "messages.[4].role",
        None,
    ),
    "calls without results": (
        [ASK, calls(call("call_1"), call("call_2"), call("call_3")), result("call_2"), NEXT],
        MISSING + "call_1, call_3",
        "messages.[3].role",
        None,
    ),
    "call at the end": ([ASK, calls(call("call_1"))], MISSING + "call_1", "messages", None),
    "empty list of calls": (
        [ASK, {"role": "assistant", "content": "Yes.", "tool_calls": []}, NEXT],
        "Invalid 'messages[1].tool_calls': empty array. Expected an array with minimum length 1, but got an empty array"
        " instead.",
        "messages[1].tool_calls",
        "empty_array",
    ),
    "null answer": (
        [ASK, {"role": "assistant", "content": None}, NEXT],
        "Invalid value for 'content': expected a string, got null.",
        "messages.[1].content",
        None,
    ),
    "null result": (
        [ASK, calls(call("call_1")), result("call_1", None)],
        "Invalid value for 'content': expected a string, got null.",
        "messages.[2].content",
        None,
    ),
    "picture in a result": (
        [ASK, calls(call("call_1")), result("call_1", [{"type": "text", "text": "page"}, PICTURE])],
        "Invalid 'messages[2]'. Image URLs are only allowed for messages with role 'user', but this message with role"
        " 'tool' contains an image URL.",
        "messages[2]",
        "invalid_value",
    ),
    "picture of an assistant": (
        [ASK, {"role": "assistant", "content": [PICTURE]}, NEXT],
        "Invalid 'messages[1]'. Image URLs are only allowed for messages with role 'user', but this message with role"
        " 'assistant' contains an image URL.",
        "messages[1]",
        "invalid_value",
    ),
    "thinking part": (
        [ASK, {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm."}]}, NEXT],
        f"Invalid value: 'thinking'. {PARTS}",
        "messages[1].content[0].type",
        "invalid_value",
    ),
    "tool_use part": (
        [ASK, {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "b", "input": {}}]}, NEXT],
        f"Invalid value: 'tool_use'. {PARTS}",
        "messages[1].content[0].type",
        "invalid_value",
    ),
    "sound for a model without ears": (
        [{"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}}]}],
        "Invalid 'messages[0]'. Content blocks are expected to be either text or image_url type.",
        "messages[0]",
        "invalid_value",
    ),
    "unknown role": (
        [ASK, {"role": "model", "content": "Yes."}],
        "Invalid value: 'model'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and"
        " 'developer'.",
        "messages[1].role",
        "invalid_value",
    ),
    "key it doesn't know": (
        [{**ASK, "createdAt": 1}],
        "Unknown parameter: 'messages[0].createdAt'.",
        "messages[0].createdAt",
        "unknown_parameter",
    ),
    "no messages": (
        [],
        "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.",
        "messages",
        "empty_array",
    ),
}

ACCEPTED: dict[str, list[Message]] = {
    "call id of 40 with any characters": answered(call("functions.look_up:0|" + "c" * 20)),
    "arguments that are no JSON": answered(call("call_1", arguments="{broken")),
    "tool name of 64": answered(call("call_1", "n" * 64)),
    "results in another order": [ASK, calls(call("call_1"), call("call_2")), result("call_2"), result("call_1"), NEXT],
    "null content beside calls": answered(call("call_1")),
    "empty result": [ASK, calls(call("call_1")), result("call_1", "")],
    "refusal in place of content": [ASK, {"role": "assistant", "content": None, "refusal": "No."}, NEXT],
    "picture of a user": [{"role": "user", "content": [{"type": "text", "text": "See"}, PICTURE]}],
    "reasoning of others": [ASK, {"role": "assistant", "content": "Yes.", "reasoning_content": "Hm."}, NEXT],
    "system in the middle, assistant first and last": [
        {"role": "assistant", "content": "Hello"},
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": "Briefer."},
        {"role": "assistant", "content": "Yes."},
    ],
}


class TestHistories:
    @pytest.mark.parametrize("name", REFUSED)
    def test_are_refused_in_the_vendors_words(self, openai: Caller, name: str) -> None:
        messages, message, param, code = REFUSED[name]

        response = openai.post(messages=messages)

        assert response.status_code == 400
        assert response.json() == {
            "error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}
        }

    @pytest.mark.parametrize("name", ACCEPTED)
    def test_are_accepted(self, openai: Caller, name: str) -> None:
        openai.accepted(messages=ACCEPTED[name])

    def test_may_hold_sound_for_models_that_hear(self, openai: Caller) -> None:
        openai.accepted(model="gpt-4o-audio-preview", messages=REFUSED["sound for a model without ears"][0])

    def test_with_a_developer_are_not_for_o1_mini(self, openai: Caller) -> None:
        message = openai.refusal(model="o1-mini", messages=[{"role": "developer", "content": "Be brief."}, ASK])

        assert message == "Unsupported value: 'messages[0].role' does not support 'developer' with this model."


class TestRequests:
    def test_name_the_limit_as_the_model_wants_it(self, openai: Caller) -> None:
        message = openai.refusal(model="gpt-5-mini", max_tokens=9, messages=[ASK])

        assert message == (
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
        )
        openai.accepted(model="gpt-5-mini", max_completion_tokens=9, messages=[ASK])
        openai.accepted(model="gpt-4o", max_tokens=9, messages=[ASK])

    def test_declare_tools_with_plain_names(self, openai: Caller) -> None:
        tool = {"type": "function", "function": {"name": "look.up", "parameters": {"type": "object"}}}

        assert openai.refusal(messages=[ASK], tools=[tool]) == f"Invalid 'tools[0].function.name': {PATTERN}"

    def test_take_no_arguments_of_others(self, openai: Caller) -> None:
        assert openai.refusal(messages=[ASK], system="Hi") == "Unrecognized request argument supplied: system"

    def test_need_any_key(self, client: httpx.Client) -> None:
        response = client.post(PATHS["openai"], json={"model": "gpt-4o", "messages": [ASK]})

        assert response.status_code == 401
        assert response.json()["error"]["message"].startswith("You didn't provide an API key.")

    def test_with_half_an_emoji_say_so(self, client: httpx.Client) -> None:
        raw = b'{"model": "gpt-4o", "messages": [{"role": "user", "content": "\\ud83d"}]}'

        response = client.post(PATHS["openai"], content=raw, headers=HEADERS["openai"])

        assert response.status_code == 400
        assert "lone leading surrogate in hex escape" in response.json()["error"]["message"]
