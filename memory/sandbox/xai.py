"""What xAI refuses: messages without content, and in the Responses protocol keys that are null.

Source: xAI's API reference, and errors reported by client projects; last seen September 2026. Its errors are two texts.
"""

import re
from typing import Any

from memory.sandbox import openai_responses
from memory.sandbox.chat_shape import OPENAI_PARTS, Fault, Shape, is_empty, walk
from memory.sandbox.deepseek import deserialised
from memory.sandbox.openai_chat import failure as openai_failure
from memory.sandbox.wire import Refused

_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_SHAPE = Shape(roles=_ROLES, parts={**OPENAI_PARTS, "function": OPENAI_PARTS["tool"]})
_EMPTY = "Invalid request content: Each message must have at least one content element."
_SHOWS_REASONING = re.compile(r"grok-3-mini|grok-4")


def error_body(refused: Refused, request_id: str) -> dict[str, Any]:
    return {"code": refused.code or "Client specified an invalid argument", "error": refused.message}


def failure(status: int) -> Refused:
    """What the vendor says with this status when nothing is wrong with the conversation."""
    if status == 429:
        return Refused("Too many requests.", status=429, code="Some resource has been exhausted")
    found = openai_failure(status)
    codes = {401: "Unauthenticated", 403: "The caller does not have permission", 404: "Not found"}
    code = codes.get(status, "Internal error" if status >= 500 else None)
    return Refused(found.message, status=status, code=code)


def check(body: Any) -> None:
    """Nothing when xAI would answer this body of a chat completion; raises Refused where it would not."""
    try:
        walk(body, _SHAPE)
    except Fault as fault:
        raise Refused(deserialised(fault, body, _ROLES), status=422) from None
    for message in body["messages"]:
        if is_empty(message):
            raise Refused(_EMPTY)


def check_responses(body: Any) -> None:
    """Nothing when xAI would answer this body of the Responses protocol; raises Refused where it would not."""
    items = body.get("input") if isinstance(body, dict) else None
    for item in items if isinstance(items, list) else []:
        if isinstance(item, dict) and any(value is None for value in item.values()):
            raise Refused(
                "Failed to deserialize the JSON body into the target type: data did not match any variant of untagged"
                " enum ModelInput",
                status=422,
            )
        if isinstance(item, dict) and item.get("type", "message") == "message" and item.get("content") in ("", []):
            raise Refused(_EMPTY)
    openai_responses.check_host(body)


def is_reasoning(body: dict[str, Any]) -> bool:
    return _SHOWS_REASONING.match(body["model"]) is not None
