"""What MiniMax refuses: calls and results apart, ids and arguments it can't read.

Source: MiniMax' API reference and error codes, and errors reported by client projects; last seen September 2026.
"""

import re
from typing import Any

import msgspec

from memory.sandbox.chat_shape import Fault, Shape, arguments_of, bracketed, gap, walk
from memory.sandbox.openai_chat import failure as openai_failure
from memory.sandbox.wire import Refused

_SHAPE = Shape()
_ID = re.compile(r"[a-zA-Z0-9_-]+")


def error_body(refused: Refused, request_id: str) -> dict[str, Any]:
    return {
        "type": "error",
        "error": {"type": refused.kind, "message": refused.message, "http_code": str(refused.status)},
        "request_id": request_id,
    }


def failure(status: int) -> Refused:
    """What the vendor says with this status when nothing is wrong with the conversation."""
    if status == 401:
        message = (
            "login fail: Please carry the API secret key in the 'Authorization' field of the request header (1004)"
        )
        return Refused(message, status=401, kind="authorized_error")
    if status == 429:
        return Refused("rate limit exceeded (1002)", status=429, kind="rate_limit_error")
    kind = "api_error" if status >= 500 else "bad_request_error"
    return Refused(openai_failure(status).message, status=status, kind=kind)


def check(body: Any) -> None:
    """Nothing when the vendor would answer this request body; raises Refused where it would not."""
    try:
        walk(body, _SHAPE)
    except Fault as fault:
        raise _invalid(f"{bracketed(fault.place) or 'body'} must be {fault.wanted or 'known'}") from None
    for message in body["messages"]:
        for call, value in arguments_of(message):
            if not _ID.fullmatch(call["id"]):
                raise _invalid("tool call id is invalid")
            if value is msgspec.UNSET:
                raise _invalid(f"invalid function arguments json string, tool_call_id: {call['id']}")
    found = gap(body["messages"])
    if found and found.kind == "orphan":
        calls = {call["id"] for message in body["messages"] for call in message.get("tool_calls") or []}
        if found.ids[0] in calls:
            raise _invalid("tool call result does not follow tool call")
        raise _invalid(f"tool result's tool id({found.ids[0]}) not found")
    if found:
        raise _invalid("tool call and result not match")
    for tool in body.get("tools") or []:
        if tool.get("type", "function") == "function" and tool["function"].get("parameters") is None:
            raise _invalid("function parameters is empty")


def _invalid(what: str) -> Refused:
    return Refused(f"invalid params, {what} (2013)", kind="bad_request_error")
