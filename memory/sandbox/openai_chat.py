"""What OpenAI's Chat Completions API refuses, in its own words.

Raises `Refused` where the vendor answers with an error. Foreign keys of a message that it is known to ignore pass; part
types, roles and other keys that are not listed are refused. Source: OpenAI's API reference (chat completions), errors
reported by client projects, and recorded exchanges; last seen September 2026.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from memory.sandbox.wire import BadJson, Refused, kind_of, words

_NAME = re.compile(r"[a-zA-Z0-9_-]+")
_NAME_CHARS = 64
_ID_CHARS = 40
_REASONING_MODEL = re.compile(r"(o\d|gpt-5)")
_ROLES = ("system", "assistant", "user", "function", "tool", "developer")
_PART_TYPES = ("text", "image_url", "input_audio", "refusal", "audio", "file")

_REQUEST_KEYS = words(
    "audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens max_tokens "
    "messages metadata modalities model moderation n parallel_tool_calls prediction presence_penalty "
    "prompt_cache_key prompt_cache_retention reasoning_effort response_format safety_identifier seed service_tier "
    "stop store stream stream_options temperature tool_choice tools top_logprobs top_p user verbosity "
    "web_search_options"
)
_IGNORED = frozenset({"reasoning", "reasoning_content", "reasoning_details"})
_MESSAGE_KEYS = {
    "assistant": {"role", "content", "name", "refusal", "tool_calls", "function_call", "audio", "annotations"},
    "tool": {"role", "content", "name", "tool_call_id"},
}
_PART_KEYS = {
    "text": {"type", "text"},
    "image_url": {"type", "image_url"},
    "input_audio": {"type", "input_audio"},
    "file": {"type", "file"},
    "refusal": {"type", "refusal"},
}
_INNER_KEYS = {
    "image_url": {"url", "detail"},
    "input_audio": {"data", "format"},
    "file": {"file_data", "file_id", "filename"},
}
_DETAILS = ("low", "high", "auto", "original")
_PARTS = {
    "user": {"text", "image_url", "input_audio", "file"},
    "assistant": {"text", "refusal"},
}


def authorise(headers: Mapping[str, str]) -> None:
    """Any key is right; raises Refused with 401 without one."""
    if not bearer(headers):
        raise Refused(
            "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer"
            " auth (i.e. Authorization: Bearer YOUR_KEY).",
            status=401,
        )


def bearer(headers: Mapping[str, str]) -> str:
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""


def error_body(refused: Refused, request_id: str) -> dict[str, Any]:
    return {
        "error": {"message": refused.message, "type": refused.kind, "param": refused.param, "code": refused.code},
    }


def failure(status: int) -> Refused:
    """What the vendor says with this status when nothing is wrong with the conversation."""
    if status == 401:
        return Refused("Incorrect API key provided.", status=401, code="invalid_api_key")
    if status == 429:
        message = "Rate limit reached on requests per min (RPM). Please try again in 20s."
        return Refused(message, status=429, kind="requests", code="rate_limit_exceeded")
    if status >= 500:
        message = "The server had an error while processing your request. Sorry about that!"
        return Refused(message, status=status, kind="server_error")
    return Refused("Invalid URL" if status == 404 else "Error", status=status)


def bad_json(error: BadJson) -> Refused:
    reason = "lone leading surrogate in hex escape" if error.is_surrogate else error.reason
    return Refused(f"Failed to parse the request body as JSON: {reason}: {error.place}")


def check(body: Any) -> None:
    """Nothing when the vendor would answer this request body; raises Refused where it would not."""
    if not isinstance(body, dict):
        raise Refused("We could not parse the JSON body of your request. It is expected to be an object.")
    for key in body:
        if key not in _REQUEST_KEYS:
            raise Refused(f"Unrecognized request argument supplied: {key}")
    check_request(body)
    if body.get("max_tokens") is not None and _REASONING_MODEL.match(body["model"]):
        raise Refused(
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens'"
            " instead.",
            param="max_tokens",
            code="unsupported_parameter",
        )
    for index, message in enumerate(body["messages"]):
        place = f"messages[{index}]"
        known = _MESSAGE_KEYS.get(message["role"], {"role", "content", "name"})
        for key in message:
            if key not in known and key not in _IGNORED:
                raise unknown(f"{place}.{key}")
        if message["role"] == "developer" and body["model"].startswith("o1-mini"):
            raise Refused(
                f"Unsupported value: '{place}.role' does not support 'developer' with this model.",
                param=f"{place}.role",
                code="unsupported_value",
            )
        for part in _parts(message):
            if part["type"] == "input_audio" and "audio" not in body["model"]:
                raise _wrong_part(place)
    check_pairs(body["messages"])


# Shared with other hosts of the protocol


def check_request(body: dict[str, Any]) -> None:
    """Model, tools, and the messages one by one; neither the keys a message may have nor pairs of calls and results."""
    if not isinstance(body.get("model"), str) or not body["model"]:
        raise Refused("you must provide a model parameter")
    if "messages" not in body:
        raise Refused("Missing required parameter: 'messages'.", param="messages", code="missing_required_parameter")
    _check_list(body["messages"], "messages")
    _check_tools(body.get("tools"))
    for index, message in enumerate(body["messages"]):
        _check_message(message, index)


def check_pairs(messages: list[dict[str, Any]]) -> None:
    """Tool messages stand right behind the assistant message that called, one for each of its calls."""
    waiting: dict[str, bool] = {}
    for index, message in enumerate(messages):
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                raise Refused(
                    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with"
                    " 'tool_calls'.",
                    param=f"messages.[{index}].role",
                )
            waiting[message["tool_call_id"]] = True
            continue
        _check_answered(waiting, f"messages.[{index}].role")
        waiting = {call["id"]: False for call in message.get("tool_calls") or []}
    _check_answered(waiting, "messages")


def unknown(place: str) -> Refused:
    return Refused(f"Unknown parameter: '{place}'.", param=place, code="unknown_parameter")


def _check_answered(waiting: dict[str, bool], param: str) -> None:
    missing = [call_id for call_id, is_answered in waiting.items() if not is_answered]
    if missing:
        raise Refused(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each"
            f" 'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(missing)}",
            param=param,
        )


def _check_tools(tools: Any) -> None:
    if tools is None:
        return
    _check_list(tools, "tools")
    for at, tool in enumerate(tools):
        place = f"tools[{at}]"
        _check_type(tool, dict, place)
        if tool.get("type") != "function":
            raise _wrong_value(tool.get("type"), ("function",), f"{place}.type")
        _check_type(tool.get("function"), dict, f"{place}.function")
        _check_name(tool["function"].get("name"), f"{place}.function.name")
        parameters = tool["function"].get("parameters")
        if parameters is not None:
            _check_type(parameters, dict, f"{place}.function.parameters")


def _check_message(message: Any, index: int) -> None:
    place = f"messages[{index}]"
    _check_type(message, dict, place)
    role = message.get("role")
    if role not in _ROLES:
        raise _wrong_value(role, _ROLES, f"{place}.role")
    if message.get("name") is not None:
        _check_name(message["name"], f"{place}.name")
    if message.get("tool_calls") is not None:
        _check_list(message["tool_calls"], f"{place}.tool_calls")
        for at, call in enumerate(message["tool_calls"]):
            _check_call(call, f"{place}.tool_calls[{at}]")
    if role == "tool":
        _check_id(message.get("tool_call_id"), f"{place}.tool_call_id")
    content = message.get("content")
    if content is None:
        may_be_empty = role == "assistant" and any(
            message.get(key) is not None for key in ("tool_calls", "function_call", "refusal", "audio")
        )
        if not may_be_empty:
            raise Refused(
                "Invalid value for 'content': expected a string, got null.", param=f"messages.[{index}].content"
            )
    elif isinstance(content, list):
        _check_list(content, f"{place}.content")
        for at, part in enumerate(content):
            _check_part(part, place, at, role)
    else:
        _check_type(content, str, f"{place}.content")


def _check_call(call: Any, place: str) -> None:
    _check_type(call, dict, place)
    _check_id(call.get("id"), f"{place}.id")
    if call.get("type") != "function":
        raise _wrong_value(call.get("type"), ("function",), f"{place}.type")
    _check_type(call.get("function"), dict, f"{place}.function")
    _check_name(call["function"].get("name"), f"{place}.function.name")
    _check_type(call["function"].get("arguments"), str, f"{place}.function.arguments")
    for extra in sorted(call.keys() - {"id", "type", "function"}):
        raise unknown(f"{place}.{extra}")
    for extra in sorted(call["function"].keys() - {"name", "arguments"}):
        raise unknown(f"{place}.function.{extra}")


def _check_part(part: Any, place: str, at: int, role: str) -> None:
    part_place = f"{place}.content[{at}]"
    _check_type(part, dict, part_place)
    kind = part.get("type")
    if kind not in _PART_TYPES:
        raise _wrong_value(kind, _PART_TYPES, f"{part_place}.type")
    if kind == "image_url" and role != "user":
        raise Refused(
            f"Invalid '{place}'. Image URLs are only allowed for messages with role 'user', but this message with role"
            f" '{role}' contains an image URL.",
            param=place,
            code="invalid_value",
        )
    if kind not in _PARTS.get(role, {"text"}):
        raise _wrong_part(place)
    for extra in sorted(part.keys() - _PART_KEYS[kind]):
        raise unknown(f"{part_place}.{extra}")
    _check_type(part.get(kind), str if kind in ("text", "refusal") else dict, f"{part_place}.{kind}")
    for extra in sorted(part[kind].keys() - _INNER_KEYS[kind]) if kind in _INNER_KEYS else ():
        raise unknown(f"{part_place}.{kind}.{extra}")
    if kind == "image_url":
        _check_type(part["image_url"].get("url"), str, f"{part_place}.image_url.url")
        detail = part["image_url"].get("detail")
        if detail is not None and detail not in _DETAILS:
            raise _wrong_value(detail, _DETAILS, f"{part_place}.image_url.detail")


def _check_id(value: Any, place: str) -> None:
    _check_type(value, str, place)
    _check_length(value, _ID_CHARS, place)


def _check_name(value: Any, place: str) -> None:
    _check_type(value, str, place)
    _check_length(value, _NAME_CHARS, place)
    if not _NAME.fullmatch(value):
        raise Refused(
            f"Invalid '{place}': string does not match pattern. Expected a string that matches the pattern"
            " '^[a-zA-Z0-9_-]+$'.",
            param=place,
            code="invalid_value",
        )


def _check_length(value: str, limit: int, place: str) -> None:
    if not value:
        raise Refused(
            f"Invalid '{place}': empty string. Expected a string with minimum length 1, but got an empty string"
            " instead.",
            param=place,
            code="empty_string",
        )
    if len(value) > limit:
        raise Refused(
            f"Invalid '{place}': string too long. Expected a string with maximum length {limit}, but got a string with"
            f" length {len(value)} instead.",
            param=place,
            code="string_above_max_length",
        )


def _check_list(value: Any, place: str) -> None:
    _check_type(value, list, place)
    if not value:
        raise Refused(
            f"Invalid '{place}': empty array. Expected an array with minimum length 1, but got an empty array instead.",
            param=place,
            code="empty_array",
        )


def _check_type(value: Any, wanted: type, place: str) -> None:
    if not isinstance(value, wanted):
        name = {"str": "a string", "list": "an array", "dict": "an object"}[wanted.__name__]
        raise Refused(
            f"Invalid type for '{place}': expected {name}, but got {kind_of(value)} instead.",
            param=place,
            code="invalid_type",
        )


def _wrong_value(value: Any, known: tuple[str, ...], place: str) -> Refused:
    names = [f"'{name}'" for name in known]
    listed = ", ".join(names[:-1]) + ", and " + names[-1] if len(names) > 1 else names[0]
    return Refused(f"Invalid value: '{value}'. Supported values are: {listed}.", param=place, code="invalid_value")


def _wrong_part(place: str) -> Refused:
    return Refused(
        f"Invalid '{place}'. Content blocks are expected to be either text or image_url type.",
        param=place,
        code="invalid_value",
    )


def _parts(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    content = message.get("content")
    yield from content if isinstance(content, list) else []
