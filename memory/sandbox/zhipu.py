"""What Zhipu (Z.ai) refuses, mostly without naming it.

Source: Z.ai's API reference and error codes, errors reported by client projects, and recorded exchanges; last seen
September 2026.
"""

import re
from typing import Any

from memory.sandbox.chat_shape import OPENAI_PARTS, Fault, Shape, gap, is_empty, parts_of, walk
from memory.sandbox.openai_chat import failure as openai_failure
from memory.sandbox.wire import Refused, string_of

_SHAPE = Shape(parts=OPENAI_PARTS)
_PART_FIELDS = ("text", "image_url", "video_url", "file", "input_audio")
_THINKING_MODEL = re.compile(r"glm-(?:4\.[5-9]|[5-9])")


def error_body(refused: Refused, request_id: str) -> dict[str, Any]:
    return {"error": {"code": refused.code or "1210", "message": refused.message}}


def failure(status: int) -> Refused:
    """What the vendor says with this status when nothing is wrong with the conversation."""
    if status == 401:
        return Refused(
            "Authentication parameter not received in Header, unable to authenticate", status=401, code="1001"
        )
    if status == 429:
        return Refused("High concurrency usage of this API, please reduce concurrency", status=429, code="1302")
    if status >= 500:
        return Refused("Internal network error, please contact customer service", status=status, code="1234")
    return Refused(openai_failure(status).message, status=status)


def check(body: Any) -> None:
    """Nothing when the vendor would answer this request body; raises Refused where it would not."""
    try:
        walk(body, _SHAPE)
    except Fault as fault:
        raise _illegal() if fault.place[:1] == ("messages",) else Refused("Invalid API parameter") from None
    messages = body["messages"]
    for index, message in enumerate(messages):
        for at, part in enumerate(parts_of(message)):
            foreign = [key for key in _PART_FIELDS if key in part and key != part["type"]]
            if foreign:
                raise Refused(
                    f"request param validation error, Value error, message[{index}].content[{at}] has invalid field(s):"
                    f" {', '.join(foreign)}"
                )
        if is_empty(message):
            raise _illegal()
    ids = [call["id"] for message in messages for call in message.get("tool_calls") or []]
    first = next((message["role"] for message in messages if message["role"] != "system"), "")
    if first != "user" or len(set(ids)) < len(ids) or gap(messages):
        raise _illegal()


def is_thinking(body: dict[str, Any]) -> bool:
    said = string_of(body.get("thinking"), "type")
    return said != "disabled" and _THINKING_MODEL.match(body["model"]) is not None


def _illegal() -> Refused:
    return Refused("The messages parameter is illegal. Please check the documentation.", code="1214")
