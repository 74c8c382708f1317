"""What Qwen on DashScope refuses: arguments that are no JSON, calls and results apart, roles it does not know.

Source: DashScope's reference of its OpenAI-style endpoint, and errors reported by client projects; last seen September
2026.
"""

import re
from typing import Any

import msgspec

from memory.sandbox.chat_shape import Fault, Gap, Shape, arguments_of, bracketed, gap, walk
from memory.sandbox.openai_chat import failure as openai_failure
from memory.sandbox.wire import Refused

_ROLES = ("system", "assistant", "user", "tool", "function")
_SHAPE = Shape(roles=_ROLES)
_CODE = "invalid_parameter_error"
_PREFIX = "<400> InternalError.Algo.InvalidParameter: "
_THINKING_MODEL = re.compile(r"qwq|qwen3.*thinking")


def check(body: Any) -> None:
    """Nothing when the vendor would answer this request body; raises Refused where it would not."""
    try:
        walk(body, _SHAPE)
    except Fault as fault:
        raise Refused(_words(fault), code=_CODE) from None
    messages = body["messages"]
    for message in messages:
        if any(value is msgspec.UNSET for _, value in arguments_of(message)):
            raise _invalid('The "function.arguments" parameter of the code model must be in JSON format.')
    if found := gap(messages):
        raise _invalid(_apart(found))


def failure(status: int) -> Refused:
    """What the vendor says with this status when nothing is wrong with the conversation."""
    if status == 401:
        return Refused("Incorrect API key provided.", status=401, code="invalid_api_key")
    if status == 429:
        message = "Requests rate limit exceeded, please try again later."
        return Refused(message, status=429, kind="limit_requests", code="limit_requests")
    return openai_failure(status)


def is_thinking(body: dict[str, Any]) -> bool:
    said = body.get("enable_thinking")
    return said is True or (said is None and _THINKING_MODEL.search(body["model"]) is not None)


def _invalid(message: str) -> Refused:
    return Refused(_PREFIX + message, code=_CODE)


def _apart(found: Gap) -> str:
    if found.kind == "orphan":
        return 'messages with role "tool" must be a response to a preceeding message with "tool_calls".'
    return (
        'An assistant message with "tool_calls" must be followed by tool messages responding to each "tool_call_id".'
        f" The following tool_call_ids did not have response messages: message[{found.index}].role"
    )


def _words(fault: Fault) -> str:
    """As the validator of JSON schemas says it."""
    place = fault.place and f"messages.{bracketed(fault.place[1:])}" if fault.place[:1] == ("messages",) else ""
    place = place or bracketed(fault.place) or "body"
    if fault.kind in ("role", "part"):
        known = list(_ROLES) if fault.kind == "role" else fault.wanted.split(", ")
        return f"{fault.value} is not one of {known} - '{place}'"
    if fault.kind == "missing":
        return f"'{place}' is a required property"
    name = fault.wanted.split()[1]
    return f"{fault.value!r} is not of type '{name}' - '{place}'"
