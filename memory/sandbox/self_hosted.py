"""What servers on one's own machines refuse: Ollama, and vLLM with the chat templates of the models it serves.

A template is known by the model's name alone; one that is not known takes any order of roles. Source: the servers'
documentation and errors reported by client projects; last seen September 2026.
"""

import json
import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import msgspec

from memory.sandbox.chat_shape import Fault, Shape, arguments_of, bracketed, walk
from memory.sandbox.openai_chat import failure as openai_failure
from memory.sandbox.wire import Refused

_ROLES = ("system", "developer", "user", "assistant", "tool")
_SHAPE = Shape(roles=_ROLES)
_SYSTEM_FIRST = re.compile(r"qwen-?3\.[5-9]|llama|gemma", re.I)
_ALTERNATING = re.compile(r"mistral|mixtral|gemma|llama-?2", re.I)
_BRIDGED = re.compile(r"devstral", re.I)
_REASONING_MODEL = re.compile(r"gpt-oss|qwen-?3|deepseek-r1|magistral", re.I)


def authorise(headers: Mapping[str, str]) -> None:
    """No key is needed."""


def check_ollama(body: Any) -> None:
    """Nothing when Ollama's OpenAI-style endpoint would answer this body; raises Refused where it would not."""
    _walk(body)
    for message in body["messages"]:
        if message.get("content") is None:
            raise Refused("invalid message content type: <nil>")


def check_vllm(body: Any) -> None:
    """Nothing when vLLM would answer this request body; raises Refused where it would not."""
    _walk(body)
    messages, model_id = body["messages"], body["model"]
    for message in messages:
        for call, value in arguments_of(message):
            _check_arguments(call["function"]["arguments"], value)
    roles = [message["role"] for message in messages]
    if _SYSTEM_FIRST.search(model_id) and "system" in roles[1:]:
        raise Refused("System message must be at the beginning.", kind="BadRequestError")
    if _BRIDGED.search(model_id):
        _check_bridges(roles)
    if _ALTERNATING.search(model_id):
        _check_alternation(messages)


def vllm_error_body(refused: Refused, request_id: str) -> dict[str, Any]:
    return {
        "object": "error",
        "message": refused.message,
        "type": refused.kind,
        "param": refused.param,
        "code": refused.status,
    }


def failure(status: int) -> Refused:
    """What such a server says with this status when nothing is wrong with the conversation."""
    if status >= 500:
        return Refused("model runner has unexpectedly stopped", status=status, kind="api_error")
    return openai_failure(status)


def is_reasoning(body: dict[str, Any]) -> bool:
    return _REASONING_MODEL.search(body["model"]) is not None and body.get("reasoning_effort") != "none"


def _walk(body: Any) -> None:
    try:
        walk(body, _SHAPE)
    except Fault as fault:
        known = {"role": ", ".join(_ROLES), "part": fault.wanted}.get(fault.kind, fault.wanted)
        raise Refused(f"Invalid '{bracketed(fault.place) or 'body'}': expected {known}") from None


def _check_arguments(text: str, value: Any) -> None:
    """Templates read the arguments as an object."""
    if value is msgspec.UNSET:
        try:
            json.loads(text)
        except ValueError as error:
            raise Refused(str(error), kind="BadRequestError") from None
    if not isinstance(value, dict):
        raise Refused("Can only get item pairs from a mapping.", kind="BadRequestError")


def _check_alternation(messages: list[dict[str, Any]]) -> None:
    """User and assistant in turn behind a system message, calls and results aside."""
    turns = [message["role"] for message in messages if message["role"] != "tool" and not message.get("tool_calls")]
    if turns[:1] == ["system"]:
        del turns[0]
    for at, role in enumerate(turns):
        if role != ("user", "assistant")[at % 2]:
            raise Refused(
                "After the optional system message, conversation roles must alternate"
                " user/assistant/user/assistant/...",
                kind="BadRequestError",
            )


def _check_bridges(roles: list[str]) -> None:
    """The template of Mistral's coding models takes nobody but the assistant behind a tool."""
    for before, role in pairwise(roles):
        if before == "tool" and role in ("user", "system"):
            raise Refused(f"Unexpected role '{role}' after role 'tool'", kind="BadRequestError")
