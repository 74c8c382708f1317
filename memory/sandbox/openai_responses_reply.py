"""Replies of the Responses protocol, whole or as its stream of events."""

import re
from collections.abc import Iterator
from typing import Any

from memory.sandbox.answers import Tool, compose
from memory.sandbox.openai_responses import REASONED, items_of, type_of
from memory.sandbox.wire import made_id, pieces, string_of, to_json, token_count

_CREATED = 1_764_547_200  # always the same second, so that the same request gets the same bytes
_REASONING_MODEL = re.compile(r"o\d|gpt-5|deepseek|grok-4|gpt-oss")


def reply(body: dict[str, Any], raw: bytes) -> dict[str, Any]:
    """The response that answers a body the checks let pass."""
    items = items_of(body)
    texts = [_text(item) for item in items if item.get("role") == "user"]
    choice = body.get("tool_choice")
    last = items[-1] if items else {}
    answer = compose(
        next((text for text in reversed(texts) if text), ""),
        _text(last) if last.get("role") == "user" else "",
        _tools(body) if choice != "none" else [],
        forced=_forced(choice),
        parallel=body.get("parallel_tool_calls") is not False,
    )
    output: list[dict[str, Any]] = []
    mark = ""
    if _reasons(body):
        mark = REASONED
        output.append(_reasoning(body, raw, answer.reasoning))
    for at, call in enumerate(answer.calls):
        output.append(
            {
                "id": _id("fc", mark, raw) + f"-{at}",
                "type": "function_call",
                "status": "completed",
                "call_id": made_id("call_", raw, f"call {at}"),
                "name": call.name,
                "arguments": to_json(call.arguments).decode(),
            }
        )
    if not answer.calls:
        content = {"type": "output_text", "text": answer.text, "annotations": [], "logprobs": []}
        output.append(
            {
                "id": _id("msg", mark, raw),
                "type": "message",
                "status": "completed",
                "role": "assistant",
                "content": [content],
            }
        )
    asked, said = token_count(raw), token_count(to_json(output))
    return {
        "id": made_id("resp_", raw),
        "object": "response",
        "created_at": _CREATED,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "metadata": body.get("metadata") or {},
        "model": body["model"],
        "output": output,
        "parallel_tool_calls": body.get("parallel_tool_calls") is not False,
        "previous_response_id": body.get("previous_response_id"),
        "store": body.get("store") is not False,
        "temperature": body.get("temperature"),
        "tool_choice": choice or "auto",
        "tools": body.get("tools") or [],
        "top_p": body.get("top_p"),
        "usage": {
            "input_tokens": asked,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": said,
            "output_tokens_details": {"reasoning_tokens": token_count(answer.reasoning) if mark else 0},
            "total_tokens": asked + said,
        },
    }


def events(body: dict[str, Any], raw: bytes) -> Iterator[bytes]:
    """The response as server-sent events, numbered."""
    whole = reply(body, raw)
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    steps: list[tuple[str, dict[str, Any]]] = [
        ("response.created", {"response": begun}),
        ("response.in_progress", {"response": begun}),
    ]
    for at, item in enumerate(whole["output"]):
        steps.extend((name, {"output_index": at, **data}) for name, data in _steps(item))
    steps.append(("response.completed", {"response": whole}))
    for number, (name, data) in enumerate(steps):
        yield b"event: %b\ndata: %b\n\n" % (
            name.encode(),
            to_json({"type": name, "sequence_number": number, **data}),
        )


def _steps(item: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    own = {"item_id": item["id"]}
    match item["type"]:
        case "reasoning":
            yield "response.output_item.added", {"item": {**item, "summary": []}}
            for at, part in enumerate(item["summary"]):
                here = {**own, "summary_index": at}
                yield "response.reasoning_summary_part.added", {**here, "part": {**part, "text": ""}}
                for piece in pieces(part["text"]):
                    yield "response.reasoning_summary_text.delta", {**here, "delta": piece}
                yield "response.reasoning_summary_text.done", {**here, "text": part["text"]}
                yield "response.reasoning_summary_part.done", {**here, "part": part}
        case "function_call":
            yield "response.output_item.added", {"item": {**item, "status": "in_progress", "arguments": ""}}
            for piece in pieces(item["arguments"]):
                yield "response.function_call_arguments.delta", {**own, "delta": piece}
            yield "response.function_call_arguments.done", {**own, "arguments": item["arguments"]}
        case _:
            yield "response.output_item.added", {"item": {**item, "status": "in_progress", "content": []}}
            for at, part in enumerate(item["content"]):
                here = {**own, "content_index": at}
                yield "response.content_part.added", {**here, "part": {**part, "text": ""}}
                for piece in pieces(part["text"]):
                    yield "response.output_text.delta", {**here, "delta": piece, "logprobs": []}
                yield "response.output_text.done", {**here, "text": part["text"], "logprobs": []}
                yield "response.content_part.done", {**here, "part": part}
    yield "response.output_item.done", {"item": item}


def _reasons(body: dict[str, Any]) -> bool:
    is_off = isinstance(body.get("reasoning"), dict) and body["reasoning"].get("effort") == "none"
    return _REASONING_MODEL.match(body["model"]) is not None and not is_off


def _reasoning(body: dict[str, Any], raw: bytes, text: str) -> dict[str, Any]:
    """The reasoning item: a summary where one was asked for, sealed where that was asked for."""
    settings = body.get("reasoning")
    shows = isinstance(settings, dict) and settings.get("summary")
    item: dict[str, Any] = {
        "id": _id("rs", REASONED, raw),
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": text}] if shows else [],
    }
    if "reasoning.encrypted_content" in (body.get("include") or []):
        item["encrypted_content"] = made_id("gAAAAAB", raw, "sealed", length=48)
    return item


def _id(prefix: str, mark: str, raw: bytes) -> str:
    """Items of one answer share what stands behind the prefix."""
    return made_id(f"{prefix}_{mark}", raw, "item", length=32)


def _forced(choice: Any) -> str | None:
    """The name of the tool that must be called, empty for any, None for a free choice."""
    if choice == "required" or (isinstance(choice, dict) and choice.get("mode") == "required"):
        return ""
    return string_of(choice, "name") if isinstance(choice, dict) and choice.get("type") == "function" else None


def _text(item: dict[str, Any]) -> str:
    content = item.get("content") if type_of(item) == "message" else None
    if isinstance(content, list):
        return "\n".join(part["text"] for part in content if part["type"] == "input_text")
    return content or ""


def _tools(body: dict[str, Any]) -> list[Tool]:
    tools = body.get("tools") or []
    return [Tool(tool["name"], tool.get("parameters") or {}) for tool in tools if tool["type"] == "function"]
