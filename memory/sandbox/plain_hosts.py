"""Hosts of the chat completions protocol of which no refusal of a history is known: Together, Hugging Face, any other.

Also Gemini's endpoint for that protocol. They refuse what no host could read. Source: their API references, and
recorded exchanges; last seen September 2026.
"""

from typing import Any

from memory.sandbox import gemini
from memory.sandbox.chat_shape import OPENAI_PARTS, Fault, Shape, bracketed, gap, walk
from memory.sandbox.wire import Refused, words

_PARTS = words("text image_url input_audio file video_url refusal")
_SHAPE = Shape(roles=("system", "developer", "user", "assistant", "tool"), parts=dict.fromkeys(OPENAI_PARTS, _PARTS))


def check(body: Any) -> None:
    """Nothing when a host would answer this request body; raises Refused where it would not."""
    try:
        walk(body, _SHAPE)
    except Fault as fault:
        raise Refused(
            f"Input validation error at {bracketed(fault.place) or 'body'}: {fault.wanted or fault.kind}"
        ) from None


def check_gemini(body: Any) -> None:
    """Nothing when Gemini would answer this body of a chat completion; raises Refused where it would not."""
    try:
        walk(body, _SHAPE)
    except Fault as fault:
        message = f"Invalid value at '{bracketed(fault.place) or 'body'}': {fault.wanted or fault.kind}"
        raise Refused(message, kind="INVALID_ARGUMENT") from None
    if gap(body["messages"]):
        raise Refused(
            "Please ensure that the number of function response parts is equal to the number of function call parts of"
            " the function call turn.",
            kind="INVALID_ARGUMENT",
        )


def gemini_error_body(refused: Refused, request_id: str) -> list[dict[str, Any]]:
    return [gemini.error_body(refused, request_id)]


def is_reasoning(body: dict[str, Any]) -> bool:
    return any(name in body["model"].lower() for name in ("gpt-oss", "deepseek-r1", "glm-", "thinking", "reason"))
