"""What DeepSeek refuses: a strict parser, text alone, and in thinking mode calls without their reasoning.

Source: DeepSeek's API reference (chat completions, thinking mode), errors reported by client projects, and recorded
exchanges; last seen September 2026. That a reasoner refused `reasoning_content` is over: its name belongs to models now
that want it.
"""

import re
from typing import Any

from memory.sandbox.chat_shape import TEXT, Fault, Shape, bracketed, gap, walk
from memory.sandbox.openai_chat import failure as openai_failure
from memory.sandbox.wire import Refused, kind_of, string_of, to_json

_ROLES = ("system", "user", "assistant", "tool", "latest_reminder")
_SHAPE = Shape(roles=_ROLES, parts=dict.fromkeys(_ROLES, TEXT))
_THINKING_MODEL = re.compile(r"deepseek-(?:reasoner|v4|v[5-9])")
_CODE = "invalid_request_error"


def check(body: Any) -> None:
    """Nothing when the vendor would answer this request body; raises Refused where it would not."""
    try:
        walk(body, _SHAPE)
    except Fault as fault:
        raise Refused(deserialised(fault, body, _ROLES), code=_CODE) from None
    messages = body["messages"]
    found = gap(messages)
    if found and found.kind == "orphan":
        raise Refused(
            "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'", code=_CODE
        )
    if found:
        raise Refused(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each"
            " 'tool_call_id'. (insufficient tool messages following tool_calls message)",
            code=_CODE,
        )
    if is_thinking(body):
        for message in messages:
            if message.get("tool_calls") and not isinstance(message.get("reasoning_content"), str):
                raise Refused(
                    "The `reasoning_content` in the thinking mode must be passed back to the API.", code=_CODE
                )


def failure(status: int) -> Refused:
    """What the vendor says with this status when nothing is wrong with the conversation."""
    if status == 401:
        message = "Authentication Fails, Your api key is invalid"
        return Refused(message, status=401, kind="authentication_error", code=_CODE)
    if status == 402:
        return Refused("Insufficient Balance", status=402, kind="unknown_error", code=_CODE)
    return openai_failure(status)


def is_thinking(body: dict[str, Any]) -> bool:
    """Whether the model thinks: by its name, unless the request says so itself."""
    said = string_of(body.get("thinking"), "type")
    return said == "enabled" or (said != "disabled" and _THINKING_MODEL.match(body["model"]) is not None)


def deserialised(fault: Fault, body: Any, roles: tuple[str, ...]) -> str:
    """The fault as the parser of Rust's serde words it, with the column where the body ends."""
    names = [f"`{role}`" for role in roles]
    match fault.kind:
        case "role" if fault.value is not None:
            what = f"unknown variant `{fault.value}`, expected one of {', '.join(names)}"
        case "part":
            what = f"unknown variant `{fault.value}`, expected `{fault.wanted}`"
            fault.place = fault.place[:2]
        case "role" | "missing":
            what = f"missing field `{fault.place[-1] if fault.place else 'model'}`"
            fault.place = fault.place[:-1]
        case _:
            found = {"an array": "sequence", "an object": "map"}.get(kind_of(fault.value), kind_of(fault.value))
            what = f"invalid type: {found}, expected {fault.wanted}"
    place = bracketed(fault.place)
    where = f"line 1 column {len(to_json(body))}"
    return f"Failed to deserialize the JSON body into the target type: {place}{': ' if place else ''}{what} at {where}"
