"""What Mistral refuses: a closed list of keys, ids of nine characters, and an order of roles of its own.

Source: Mistral's API reference (chat completions) and message validators, errors reported by client projects, and
recorded exchanges; last seen September 2026.
"""

import re
from collections.abc import Mapping
from typing import Any

from memory.sandbox.chat_shape import TEXT, Fault, Shape, is_empty, parts_of, walk
from memory.sandbox.openai_chat import bearer
from memory.sandbox.wire import BadJson, Refused, words

_CHUNKS = words("text image_url document_url reference file input_audio thinking")
_CALL_KEYS = words("id type function index")
_SHAPE = Shape(
    parts={"system": words("text thinking"), "user": _CHUNKS, "assistant": _CHUNKS, "tool": _CHUNKS},
    request_keys=words(
        "model messages temperature top_p max_tokens stream stop random_seed metadata response_format tools tool_choice"
        " presence_penalty frequency_penalty n prediction parallel_tool_calls prompt_mode reasoning_effort guardrails"
        " prompt_cache_key safe_prompt"
    ),
    message_keys={
        "system": words("role content"),
        "user": words("role content"),
        "assistant": words("role content tool_calls prefix"),
        "tool": words("role content name tool_call_id"),
    },
    call_keys=_CALL_KEYS,
    arguments=(str, dict),
)
_ID = re.compile(r"[a-zA-Z0-9]{9}")
_REASONING_MODEL = re.compile(r"magistral|mistral-(?:small|medium)-(?:latest|4|2[6-9])")
_NEXT = {
    "": words("system user assistant"),
    "system": words("system user assistant"),
    "user": words("system user assistant"),
    "assistant": words("system user assistant"),
    "tool": words("tool assistant"),
}
"""Roles that may follow a role; after calls there must be results."""


class _Unreadable(Refused):
    """A body that does not fit the vendor's models; `detail` lists where."""

    def __init__(self, kind: str, place: tuple[str | int, ...], message: str, value: Any) -> None:
        super().__init__(message, status=422)
        self.detail = [{"type": kind, "loc": ["body", *place], "msg": message, "input": value}]


def authorise(headers: Mapping[str, str]) -> None:
    """Any key is right; raises Refused with 401 without one."""
    if not bearer(headers):
        raise failure(401)


def error_body(refused: Refused, request_id: str) -> dict[str, Any]:
    if isinstance(refused, _Unreadable):
        return {"detail": refused.detail}
    if refused.status == 401:
        return {"detail": refused.message}
    return {
        "object": "error",
        "message": refused.message,
        "type": refused.kind,
        "param": refused.param,
        "code": refused.code,
    }


def failure(status: int) -> Refused:
    """What the vendor says with this status when nothing is wrong with the conversation."""
    if status == 401:
        return Refused("Unauthorized", status=401)
    if status == 429:
        return Refused("Requests rate limit exceeded", status=429, kind="rate_limited", code="1300")
    if status >= 500:
        return Refused("Service unavailable.", status=status, kind="internal_server_error", code="3000")
    return Refused("no Route matched with those values" if status == 404 else "Error", status=status)


def bad_json(error: BadJson) -> Refused:
    return _Unreadable("json_invalid", (), f"JSON decode error: {error.reason}", {})


def check(body: Any) -> None:
    """Nothing when the vendor would answer this request body; raises Refused where it would not."""
    try:
        walk(body, _SHAPE)
    except Fault as fault:
        raise _unreadable(fault) from None
    reasons = _REASONING_MODEL.search(body["model"]) is not None
    for index, message in enumerate(body["messages"]):
        _check_message(message, index, reasons=reasons)
    _check_order(body["messages"])


def is_reasoning(body: Mapping[str, Any]) -> bool:
    """Whether the answer shows reasoning: Magistral's always does, others' when asked for."""
    effort = body.get("reasoning_effort")
    return "magistral" in body["model"] or (
        effort not in (None, "none") and _REASONING_MODEL.search(body["model"]) is not None
    )


def _unreadable(fault: Fault) -> Refused:
    place = (*fault.place[:2], fault.role, *fault.place[2:]) if fault.role else fault.place
    match fault.kind:
        case "key":
            return _Unreadable("extra_forbidden", place, "Extra inputs are not permitted", fault.value)
        case "role":
            message = (
                f"Input tag '{fault.value}' found using 'role' does not match any of the expected tags: 'assistant',"
                " 'system', 'tool', 'user'"
            )
            return _Unreadable("union_tag_invalid", fault.place[:-1], message, fault.value)
        case "missing":
            return _Unreadable("missing", place, "Field required", fault.value)
        case "part":
            return _Unreadable("union_tag_invalid", place[:-1], f"Input tag '{fault.value}' is not known", fault.value)
        case _:
            name = fault.wanted.split()[1].replace("array", "list").replace("object", "dictionary")
            return _Unreadable(f"{name}_type", place, f"Input should be a valid {name}", fault.value)


def _check_message(message: dict[str, Any], index: int, *, reasons: bool) -> None:
    ids = [call["id"] for call in message.get("tool_calls") or []]
    for call_id in [message["tool_call_id"]] if message["role"] == "tool" else ids:
        if not _ID.fullmatch(call_id):
            raise Refused(
                f"Tool call id was {call_id} but must be a-z, A-Z, 0-9, with a length of 9.",
                kind="invalid_function_call",
                code="3280",
            )
    for call in message.get("tool_calls") or []:
        for key in call["function"].keys() - {"name", "arguments"}:
            place = ("messages", index, "assistant", "tool_calls", ids.index(call["id"]), "function", key)
            raise _Unreadable("extra_forbidden", place, "Extra inputs are not permitted", call["function"][key])
    for at, part in enumerate(parts_of(message)):
        if message["role"] == "tool" and part["type"] not in TEXT:
            raise Refused(
                f"1 validation error for ToolMessage content.list[TextChunk].{at}.type Input should be"
                " <ChunkTypes.text: 'text'>",
                code="3051",
            )
        if part["type"] == "thinking" and not reasons:
            raise Refused("Reasoning input is not enabled for this model", code="3051")
    if message["role"] == "assistant" and is_empty(message) and message.get("prefix") is not True:
        raise Refused(
            "Assistant message must have either content or tool_calls, but not none.",
            kind="invalid_assistant_message",
            code="3240",
        )


def _check_order(messages: list[dict[str, Any]]) -> None:
    """Roles in their order, as many results as calls, a turn of someone else at the end."""
    before, open_count = "", 0
    for message in messages:
        role = message["role"]
        if open_count and role != "tool":
            raise _order("Not the same number of function calls and responses")
        if role == "tool" and before == "tool" and not open_count:
            raise _order("Not the same number of function calls and responses")
        if role not in _NEXT[before] and not (role == "tool" and open_count):
            raise _order(f"Unexpected role '{role}' after role '{before or 'none'}'")
        open_count = open_count - 1 if role == "tool" else len(message.get("tool_calls") or [])
        before = role
    if open_count and before == "tool":
        raise _order("Not the same number of function calls and responses")
    last = messages[-1]
    if last["role"] == "system" or (last["role"] == "assistant" and last.get("prefix") is not True):
        raise _order(
            f"Expected last role User or Tool (or Assistant with prefix True) for serving but got {last['role']}"
        )


def _order(message: str) -> Refused:
    return Refused(message, kind="invalid_request_message_order", code="3230")
