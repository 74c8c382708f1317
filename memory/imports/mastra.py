"""Mastra's threads: rows of its store, or its JSON. Bodies in the stored format (version 2) stay as they are.

Older bodies (version 1) are a text, or a list of a core message's parts, with results in `tool` messages of their
own. Source: the public types of `@mastra/core` (`MastraDBMessage`, `MastraMessageV1`, `StorageThreadType`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memory.errors import InvalidInput
from memory.imports.values import PREFIX, Dump, digest, json_text, key_of, moment, objects, settled, word
from memory.messages.convert import tool_output
from memory.messages.from_prompt import from_prompt
from memory.messages.prompt import File, Message, Options, Output, Part, Prompt, Reasoning, Text, ToolCall, ToolResult

_V1_ROLES = ("user", "assistant", "tool")


def read(value: Any) -> Iterator[Dump]:
    """The threads of `{messages}`, `{thread, messages}`, `{threads}` (with their messages, or beside them) or a list.

    Messages that name no thread belong to the only one there is. Raises InvalidInput when there is neither.
    """
    threads = objects(value.get("threads")) if isinstance(value, Mapping) else []
    messages = objects(value.get("messages") if isinstance(value, Mapping) else value)
    if isinstance(value, Mapping) and isinstance(value.get("thread"), Mapping):
        threads = [value["thread"], *threads]
    if not threads and not messages:
        raise InvalidInput("it holds no threads and no messages")
    only_id = word(threads[0], "id") if len(threads) == 1 else ""
    by_thread: dict[str, list[Mapping[str, Any]]] = {word(thread, "id"): [] for thread in threads}
    for message in messages:
        by_thread.setdefault(word(message, "threadId", "thread_id") or only_id, []).append(message)
    rows = {word(thread, "id"): thread for thread in threads}
    for thread_id, found in by_thread.items():
        thread = rows.get(thread_id, {})
        yield dump_of(thread_id, thread, [*objects(thread.get("messages")), *found])


def dump_of(thread_id: str, thread: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> Dump:
    """The thread of a row of `mastra_threads` and its messages; an empty id gets one from the messages' text."""
    key = key_of(thread_id) if thread_id else "thread-" + digest(messages)
    held = settled(_with_bodies(messages), key)
    owners = (word(message, "resourceId") for message in messages)
    metadata = thread.get("metadata")
    return Dump(
        format="mastra",
        thread_id=thread_id or PREFIX + key,
        is_own_id=bool(thread_id),
        messages=held.messages,
        resource_id=word(thread, "resourceId") or next(filter(None, owners), ""),
        title=word(thread, "title"),
        created_at=moment(thread.get("createdAt")),
        metadata=metadata if isinstance(metadata, Mapping) else {},
        system=held.system,
        left_out=held.left_out,
    )


def _with_bodies(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The messages with bodies of version 2; old ones in a row are read together, for results find their calls."""
    out: list[Mapping[str, Any]] = []
    old: list[Mapping[str, Any]] = []
    # Old results stand in messages of their own, so their order matters here already.
    for message in sorted(messages, key=_time):
        if message.get("role") in _V1_ROLES and isinstance(message.get("content"), list):
            old.append(message)
            continue
        out += _from_v1(old)
        old = []
        out.append(message)
    return [*out, *_from_v1(old)]


def _time(message: Mapping[str, Any]) -> float:
    at = moment(message.get("createdAt"))
    return at.timestamp() if at else 0.0


def _from_v1(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    if not messages:
        return []
    by_place = {f"{place}": message for place, message in enumerate(messages)}
    prompt = Prompt(tuple(Message(m["role"], _v1_parts(m), id=place) for place, m in by_place.items()))
    out: list[Mapping[str, Any]] = []
    for stored in from_prompt(prompt):
        message = by_place[stored["id"]]
        kept = {key: message[key] for key in ("id", "createdAt", "type") if key in message}
        if kept.get("type") in ("tool-call", "tool-result"):
            del kept["type"]
        out.append({**kept, "role": stored["role"], "content": stored["content"]})
    return out


def _v1_parts(message: Mapping[str, Any]) -> tuple[Part, ...]:
    parts = [part for value in objects(message["content"]) if (part := _v1_part(value)) is not None]
    kinds = {"user": Text | File, "tool": ToolResult}
    wanted = kinds.get(message["role"])
    if wanted is None:
        return tuple(parts)
    # What a role can't hold is kept as text, so that nothing of an old row is lost.
    return tuple(part if isinstance(part, wanted) else Text(json_text(_plain(part))) for part in parts)


def _plain(part: Part) -> Any:
    return {name: getattr(part, name) for name in ("id", "name", "input", "text") if hasattr(part, name)}


def _v1_part(value: Mapping[str, Any]) -> Part | None:
    options = _options(value)
    match value.get("type"):
        case "text":
            return Text(word(value, "text"), options)
        case "reasoning":
            signature = word(value, "signature")
            return Reasoning(word(value, "text"), {"anthropic": {"signature": signature}} if signature else options)
        case "redacted-reasoning":
            return Reasoning("", {"anthropic": {"redactedData": word(value, "data")}})
        case "image" | "file" as kind:
            default = "image/png" if kind == "image" else "application/octet-stream"
            media_type = word(value, "mimeType", "mediaType") or default
            return File(media_type, word(value, "image", "data", "url"), word(value, "filename") or None, options)
        case "tool-call":
            arguments = value.get("args", value.get("input", {}))
            return ToolCall(word(value, "toolCallId"), word(value, "toolName"), arguments, None, False, options)
        case "tool-result":
            return ToolResult(word(value, "toolCallId"), word(value, "toolName"), _v1_output(value), options=options)
    return Text(json_text(value))


def _v1_output(value: Mapping[str, Any]) -> Output:
    result = value.get("result", value.get("output"))
    if value.get("isError"):
        return Output("error-text", result if isinstance(result, str) else json_text(result))
    return tool_output(result)


def _options(value: Mapping[str, Any]) -> Options | None:
    found = value.get("providerOptions") or value.get("providerMetadata") or value.get("experimental_providerMetadata")
    return found if isinstance(found, Mapping) else None
