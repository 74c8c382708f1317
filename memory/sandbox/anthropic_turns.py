"""The conversation of a Messages request: roles, texts, pairs of calls and results, thinking, cache markers.

Reads bodies whose shape was checked before.
"""

from collections.abc import Iterator
from itertools import takewhile
from typing import Any

from msgspec import Struct

from memory.sandbox.anthropic_models import is_sealed, model_family, own_signature, text_digest, thinking_on, version
from memory.sandbox.pictures import MOST_PIXELS, picture_of, too_long
from memory.sandbox.wire import Refused

_CACHE_MARKERS = 4


def check_conversation(body: dict[str, Any]) -> None:
    """Raises Refused for the first fault that shows only when the messages are seen together."""
    _check_roles(body)
    _check_markers(body)
    _check_texts(body)
    _check_pairs(body["messages"])
    _check_server_pairs(body["messages"])
    _check_tools(body)
    _check_pictures(body["messages"])
    _check_thinking(body)
    _check_end(body)


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    if isinstance(content, list):
        return content
    return [{"type": "text", "text": content}] if content else []


def _inner_blocks(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every block of the messages, those inside tool results behind the result that holds them."""
    for message in body["messages"]:
        for block in _blocks(message):
            yield block
            if block["type"] == "tool_result" and isinstance(block.get("content"), list):
                yield from block["content"]


def _check_markers(body: dict[str, Any]) -> None:
    system = body.get("system") if isinstance(body.get("system"), list) else []
    marked = [*(system or []), *(body.get("tools") or []), *_inner_blocks(body)]
    count = sum(block.get("cache_control") is not None for block in marked)
    if count > _CACHE_MARKERS:
        raise Refused(f"A maximum of {_CACHE_MARKERS} blocks with cache_control may be provided. Found {count}.")


def _check_texts(body: dict[str, Any]) -> None:
    for block in _inner_blocks(body):
        if block["type"] == "text" and not block["text"]:
            raise Refused("messages: text content blocks must be non-empty")
        if block["type"] == "text" and not block["text"].strip():
            raise Refused("messages: text content blocks must contain non-whitespace text")


def _check_roles(body: dict[str, Any]) -> None:
    """Who speaks when. Roles may repeat; Opus 4.8 alone takes a system message, behind a user's or another one."""
    roles = [message["role"] for message in body["messages"]]
    takes_system = "opus" in body["model"] and version(body["model"]) == (4, 8)
    for before, role in zip(["", *roles], roles, strict=False):
        if role == "system" and not (takes_system and before in ("user", "system")):
            raise Refused(
                'messages: Unexpected role "system". The Messages API accepts a top-level `system` parameter, not'
                ' "system" as an input message role.'
            )
    if roles[0] != "user" and version(body["model"]) < (4, 0):
        raise Refused('messages: first message must use the "user" role')


class _Use(Struct, frozen=True):
    """A tool call: its id, its place, which assistant turn made it, whether the next message holds its result."""

    id: str
    message: int
    block: int
    turn: int
    answered: bool


def _uses(messages: list[dict[str, Any]]) -> list[_Use]:
    """Tool calls in order; neighbouring assistant messages are one turn."""
    found: list[_Use] = []
    for turn, (first, end) in enumerate(_turns(messages)):
        results = _result_ids(messages[end]) if end < len(messages) else []
        for index in range(first, end):
            for at, block in enumerate(_blocks(messages[index])):
                if block["type"] == "tool_use":
                    found.append(_Use(block["id"], index, at, turn, block["id"] in results))
    return found


def _turns(messages: list[dict[str, Any]]) -> list[tuple[int, int]]:
    """First index and end of every run of assistant messages."""
    turns: list[tuple[int, int]] = []
    for index, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        if turns and turns[-1][1] == index:
            turns[-1] = (turns[-1][0], index + 1)
        else:
            turns.append((index, index + 1))
    return turns


def _result_ids(message: dict[str, Any]) -> list[str]:
    return [block["tool_use_id"] for block in _blocks(message) if block["type"] == "tool_result"]


def _check_pairs(messages: list[dict[str, Any]]) -> None:
    """Every call is answered in the next message, at its beginning, once; every result has its call right before it.

    An id may come again in a later turn when each call is followed by its own result.
    """
    uses = _uses(messages)
    seen: dict[str, _Use] = {}
    for use in uses:
        earlier = seen.setdefault(use.id, use)
        if earlier is not use and (earlier.turn == use.turn or not (earlier.answered and use.answered)):
            raise Refused(f"messages.{use.message}.content.{use.block}: `tool_use` ids must be unique")
    by_answer: dict[int, list[_Use]] = {}
    for first, end in _turns(messages):
        by_answer[end] = [use for use in uses if first <= use.message < end]
    for index in range(len(messages) + 1):
        asked = by_answer.get(index, [])
        missing = [use.id for use in asked if not use.answered]
        if missing:
            raise Refused(
                f"messages.{index - 1}: `tool_use` ids were found without `tool_result` blocks immediately after:"
                f" {', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block in the"
                " next message."
            )
        if index < len(messages):
            _check_results(messages[index], f"messages.{index}", {use.id for use in asked})


def _check_results(message: dict[str, Any], place: str, asked: set[str]) -> None:
    """The results in the message behind a turn that called `asked`."""
    answered: set[str] = set()
    for at, block in enumerate(_blocks(message)):
        if block["type"] != "tool_result":
            continue
        call_id = block["tool_use_id"]
        if call_id not in asked:
            raise Refused(
                f"{place}.content.{at}: unexpected `tool_use_id` found in `tool_result` blocks: {call_id}. Each"
                " `tool_result` block must have a corresponding `tool_use` block in the previous message."
            )
        if call_id in answered:
            raise Refused(
                f"{place}.content.{at}: each tool_use must have a single result. Found multiple `tool_result` blocks"
                f" with id: {call_id}"
            )
        answered.add(call_id)
    leading = list(takewhile(lambda block: block["type"] == "tool_result", _blocks(message)))
    if len(leading) < len(asked):
        raise Refused(
            f"{place}: Did not find {len(asked)} `tool_result` block(s) at the beginning of this message. Messages"
            " following `tool_use` blocks must begin with a matching number of `tool_result` blocks."
        )


def _check_server_pairs(messages: list[dict[str, Any]]) -> None:
    """The result of a tool the vendor ran stands behind its call in the same turn. A call may still wait for one."""
    for first, end in _turns(messages):
        called: set[tuple[str, str]] = set()
        for index in range(first, end):
            for at, block in enumerate(_blocks(messages[index])):
                kind = block["type"]
                if kind in ("server_tool_use", "mcp_tool_use"):
                    called.add((kind, block["id"]))
                elif kind.endswith("_tool_result"):
                    partner = "mcp_tool_use" if kind == "mcp_tool_result" else "server_tool_use"
                    if (partner, block["tool_use_id"]) not in called:
                        raise Refused(
                            f"messages.{index}.content.{at}: unexpected `tool_use_id` found in `{kind}` blocks:"
                            f" {block['tool_use_id']}. Each `{kind}` block must have a corresponding `{partner}` block"
                            " before it."
                        )


def _check_tools(body: dict[str, Any]) -> None:
    """Claude 3 and 3.5 want tools declared where they read of calls; later models are known to do without."""
    if body.get("tools") or version(body["model"]) >= (3, 7):
        return
    if any(block["type"] in ("tool_use", "tool_result") for message in body["messages"] for block in _blocks(message)):
        raise Refused("Requests which include `tool_use` or `tool_result` blocks must define tools")


def _check_pictures(messages: list[dict[str, Any]]) -> None:
    """Pictures in base64 are what they are said to be, and within the limits of pixels."""
    found = list(_pictures(messages))
    for place, source in found:
        shown = picture_of(source["data"])
        if shown is None:
            continue
        if shown.media_type != source["media_type"]:
            raise Refused(
                f"{place}.source.base64.data: The image was specified using the {source['media_type']} media type, but"
                f" the image appears to be a {shown.media_type} image"
            )
        if limit := too_long(shown, len(found)):
            of_many = " for many-image requests" if limit < MOST_PIXELS else ""
            raise Refused(
                f"{place}.source.base64.data: At least one of the image dimensions exceed max allowed size{of_many}:"
                f" {limit} pixels"
            )


def _pictures(messages: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Place and source of every picture that is sent in base64."""
    for index, message in enumerate(messages):
        for at, block in enumerate(_blocks(message)):
            place, inner = f"messages.{index}.content.{at}", [block]
            if block["type"] == "tool_result" and isinstance(block.get("content"), list):
                place, inner = f"{place}.tool_result.content", block["content"]
            for k, one in enumerate(inner):
                if one["type"] == "image" and one["source"]["type"] == "base64":
                    where = place if one is block else f"{place}.{k}"
                    yield f"{where}.image", one["source"]


def _check_thinking(body: dict[str, Any]) -> None:
    """Signatures of all turns, and the first block of the open tool loop while thinking is on."""
    messages, family = body["messages"], model_family(body["model"])
    latest = max((index for index, message in enumerate(messages) if message["role"] == "assistant"), default=-1)
    for index, message in enumerate(messages):
        for at, block in enumerate(_blocks(message)):
            kind = block["type"]
            if kind not in ("thinking", "redacted_thinking"):
                continue
            sealed = block["signature"] if kind == "thinking" else block["data"]
            text = block["thinking"] if kind == "thinking" else ""
            own = own_signature(sealed)
            if (own is None and not is_sealed(sealed)) or (own is not None and own[0] != text_digest(family)):
                raise Refused(f"messages.{index}.content.{at}: Invalid `signature` in `{kind}` block")
            if own is not None and own[1] != text_digest(text):
                if index != latest:
                    raise Refused(f"messages.{index}.content.{at}: Invalid `signature` in `{kind}` block")
                raise Refused(
                    f"messages.{index}.content.{at}: `thinking` or `redacted_thinking` blocks in the latest assistant"
                    " message cannot be modified. These blocks must remain as they were in the original response."
                )
    thinking = body.get("thinking") or {}
    if thinking.get("type") == "enabled" and version(body["model"]) < (4, 6):
        _check_lead(messages)


def _check_lead(messages: list[dict[str, Any]]) -> None:
    """The open tool loop reaches back over assistant turns and results to the last message that holds no result."""
    if not _result_ids(messages[-1]):
        return
    first = len(messages) - 1
    while first > 0 and (messages[first - 1]["role"] == "assistant" or _result_ids(messages[first - 1])):
        first -= 1
    blocks = next((_blocks(message) for message in messages[first:] if message["role"] == "assistant"), [])
    if blocks and blocks[0]["type"] not in ("thinking", "redacted_thinking"):
        raise Refused(
            f"messages.{first}.content.0.type: Expected `thinking` or `redacted_thinking`, but found"
            f" `{blocks[0]['type']}`. When `thinking` is enabled, a final `assistant` message must start with a"
            " thinking block (preceeding the lastmost set of `tool_use` and `tool_result` blocks)."
        )


def _check_end(body: dict[str, Any]) -> None:
    """A final assistant message: for older models the start of the answer, else only a turn the vendor paused."""
    last = body["messages"][-1]
    if last["role"] != "assistant":
        return
    blocks = _blocks(last)
    kind = blocks[-1]["type"] if blocks else ""
    if kind in ("server_tool_use", "mcp_tool_use") or kind.endswith("_tool_result"):
        return
    if thinking_on(body) or version(body["model"]) >= (4, 6):
        raise Refused(
            "This model does not support assistant message prefill. The conversation must end with a user message."
        )
    for at, block in enumerate(blocks):
        if block["type"] in ("thinking", "redacted_thinking"):
            raise Refused(
                f"messages.{len(body['messages']) - 1}.content.{at}: When thinking is disabled, an `assistant` message"
                f" in the final position cannot contain `{block['type']}`. To use thinking blocks, enable `thinking` in"
                " your request."
            )
    if kind == "text" and blocks[-1]["text"] != blocks[-1]["text"].rstrip():
        raise Refused("messages: final assistant content cannot end with trailing whitespace")
