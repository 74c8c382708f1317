"""What Moonshot refuses: calls without their reasoning while the model thinks, empty answers, foreign part types.

Source: Kimi's documentation (chat completions, thinking models), and errors reported by client projects; last seen
September 2026.
"""

import re
from typing import Any

from memory.sandbox.chat_shape import OPENAI_PARTS, Fault, Shape, bracketed, is_empty, walk
from memory.sandbox.openai_chat import failure as openai_failure
from memory.sandbox.wire import Refused, string_of, words

_ANY_PART = words("text image_url video_url input_audio file refusal")
_SHAPE = Shape(parts=dict.fromkeys(OPENAI_PARTS, _ANY_PART))
_THINKING_MODEL = re.compile(r"kimi-k2\.[5-9]|kimi-k[3-9]|kimi-for-coding|kimi-k2-thinking|kimi-thinking")
_ALWAYS_THINKING = re.compile(r"kimi-k[3-9]")
_SEEING_MODEL = re.compile(r"vision|kimi-k2\.[5-9]|kimi-k[3-9]|kimi-latest")


def check(body: Any) -> None:
    """Nothing when the vendor would answer this request body; raises Refused where it would not."""
    try:
        walk(body, _SHAPE)
    except Fault as fault:
        raise Refused(_words(fault)) from None
    model_id = body["model"]
    for index, message in enumerate(body["messages"]):
        role = message["role"]
        if role == "assistant" and is_empty(message):
            raise Refused(f"The message at position {index} with role 'assistant' must not be empty")
        content = message.get("content")
        for part in content if isinstance(content, list) else []:
            if not _takes(model_id, role, part["type"]):
                raise Refused(_part(index, role, part["type"]))
        if is_thinking(body) and message.get("tool_calls") and not message.get("reasoning_content"):
            raise Refused(
                f"thinking is enabled but reasoning_content is missing in assistant tool call message at index {index}"
            )


def failure(status: int) -> Refused:
    """What the vendor says with this status when nothing is wrong with the conversation."""
    if status == 401:
        return Refused("Invalid Authentication", status=401, kind="invalid_authentication_error")
    if status == 429:
        return Refused("Your account reached max request", status=429, kind="rate_limit_reached_error")
    return openai_failure(status)


def is_thinking(body: dict[str, Any]) -> bool:
    """Whether the model thinks: by its name, unless the request says so itself, which the newest don't heed."""
    said = string_of(body.get("thinking"), "type")
    if _ALWAYS_THINKING.match(body["model"]):
        return True
    return said != "disabled" and (said == "enabled" or _THINKING_MODEL.match(body["model"]) is not None)


def _takes(model_id: str, role: str, kind: str) -> bool:
    if kind == "text":
        return True
    return kind in ("image_url", "video_url") and role in ("user", "tool") and bool(_SEEING_MODEL.search(model_id))


def _words(fault: Fault) -> str:
    if fault.kind == "part":
        return _part(int(fault.place[1]), fault.role, str(fault.value))
    if fault.kind == "role":
        return f"Invalid request: invalid role: {fault.value}"
    return f"Invalid request: {bracketed(fault.place) or 'the body'} must be {fault.wanted}"


def _part(index: int, role: str, kind: str) -> str:
    return f"the message at position {index} with role '{role}' contains an invalid part type: {kind}"
