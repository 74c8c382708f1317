"""Hosts that speak Anthropic's Messages protocol beside their own: DeepSeek and Moonshot.

They read the same blocks and pairs, sign nothing, and want their thinking back with every call it led to. Source: their
API references (Anthropic-compatible API), and errors reported by client projects; last seen November 2026.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from memory.sandbox import anthropic, anthropic_reply, deepseek, moonshot
from memory.sandbox.openai_chat import bearer
from memory.sandbox.wire import Refused

_READ_AS = "claude-sonnet-4-5"
_SEEING = re.compile(r"deepseek-(?:flash|.*vision)|claude-(?:haiku|sonnet)")
_CODE = "invalid_request_error"


def authorise_deepseek(headers: Mapping[str, str]) -> None:
    """Any key is right, as `x-api-key` or as a bearer token; raises Refused with 401 without one."""
    _authorise(headers, deepseek.failure)


def authorise_moonshot(headers: Mapping[str, str]) -> None:
    """Any key is right, as `x-api-key` or as a bearer token; raises Refused with 401 without one."""
    _authorise(headers, moonshot.failure)


def check_deepseek(body: Any) -> None:
    """Nothing when DeepSeek would answer this request body; raises Refused where it would not."""
    try:
        _check_shape(body)
    except Refused as refused:
        refused.code = _CODE
        raise
    for block in _blocks(body):
        if block["type"] == "redacted_thinking":
            raise Refused("Unsupported content block type: redacted_thinking", code=_CODE)
        if block["type"] == "image" and not _SEEING.match(body["model"]):
            raise Refused("This model does not support image input", code=_CODE)
        if block["type"] == "document":
            raise Refused("Unsupported content block type: document", code=_CODE)
    if deepseek.is_thinking(body) and next(_unthinking(body), None) is not None:
        raise Refused("The `content[].thinking` in the thinking mode must be passed back to the API.", code=_CODE)


def check_moonshot(body: Any) -> None:
    """Nothing when Moonshot would answer this request body; raises Refused where it would not."""
    _check_shape(body)
    if moonshot.is_thinking(body) and (index := next(_unthinking(body, may_be_empty=False), None)) is not None:
        raise Refused(
            f"thinking is enabled but reasoning_content is missing in assistant tool call message at index {index}"
        )


Reply = Callable[[dict[str, Any], bytes], dict[str, Any]]
Events = Callable[[dict[str, Any], bytes], Iterator[bytes]]


def speaking(is_thinking: Callable[[dict[str, Any]], bool]) -> tuple[Reply, Events]:
    """The functions that answer a body the checks let pass, with thinking where the model thinks unasked."""

    def asked(body: dict[str, Any]) -> dict[str, Any]:
        return {**body, "thinking": {"type": "enabled" if is_thinking(body) else "disabled"}}

    return (
        lambda body, raw: anthropic_reply.reply(asked(body), raw),
        lambda body, raw: anthropic_reply.events(asked(body), raw),
    )


def _authorise(headers: Mapping[str, str], failure: Callable[[int], Refused]) -> None:
    if not headers.get("x-api-key", "").strip() and not bearer(headers):
        raise failure(401)


def _check_shape(body: Any) -> None:
    """What the protocol itself asks for. Thinking counts as a text here: whether it is signed is asked by nobody.

    Nor is it known of any of them that a final text must not end in white space.
    """
    if not isinstance(body, dict) or not isinstance(body.get("messages"), list):
        anthropic.check(body)
        raise Refused("messages: Input should be a valid array")
    messages = [_plain(message) for message in body["messages"]]
    model_id, thinking = body.get("model"), body.get("thinking")
    read = {
        "model": _READ_AS if model_id and isinstance(model_id, str) else model_id,
        "messages": messages,
        "thinking": None if isinstance(thinking, dict) else thinking,
    }
    anthropic.check(body | read)


def _plain(message: Any) -> Any:
    if not isinstance(message, dict) or not isinstance(message.get("content"), list):
        return message
    return {**message, "content": [_plain_block(block) for block in message["content"]]}


def _plain_block(block: Any) -> Any:
    if not isinstance(block, dict):
        return block
    if block.get("type") in ("thinking", "redacted_thinking"):
        return {"type": "text", "text": "thinking"}
    if block.get("type") == "text" and isinstance(text := block.get("text"), str):
        return {**block, "text": text.rstrip() or text}
    return block


def _blocks(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every block, those inside a tool's result behind the result."""
    for message in body["messages"]:
        for block in message["content"] if isinstance(message["content"], list) else []:
            yield block
            if block["type"] == "tool_result" and isinstance(block.get("content"), list):
                yield from block["content"]


def _unthinking(body: dict[str, Any], *, may_be_empty: bool = True) -> Iterator[int]:
    """Indexes of assistant messages that call tools without the thinking that led to it."""
    for index, message in enumerate(body["messages"]):
        blocks = message["content"] if isinstance(message["content"], list) else []
        thought = [block for block in blocks if block["type"] == "thinking"]
        has_thought = any(may_be_empty or block.get("thinking") for block in thought)
        if message["role"] == "assistant" and any(block["type"] == "tool_use" for block in blocks) and not has_thought:
            yield index
