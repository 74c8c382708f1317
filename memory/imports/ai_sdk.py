"""Messages of the AI SDK's user interfaces (`UIMessage`): version 4, and the parts of version 5 and later.

Version 4's parts are those of the stored format. From version 5 on a tool part names its tool in its type, files have
a URL, reasoning has a text. Source: the AI SDK's reference of `UIMessage` and its migration guide.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memory.errors import InvalidInput
from memory.imports.values import PREFIX, Dump, digest, json_text, key_of, objects, settled, word

_STATES = {
    "input-streaming": "partial-call",
    "input-available": "call",
    "approval-requested": "approval-requested",
    "approval-responded": "approval-responded",
    "output-available": "result",
    "output-error": "output-error",
    "output-denied": "output-denied",
}
_TOOL = "tool-"
_TOOL_KEYS: tuple[str, ...] = (
    "type",
    "toolName",
    "toolCallId",
    "state",
    "input",
    "output",
    "rawInput",
    "approval",
    "errorText",
)
_TOOL_KEYS += ("callProviderMetadata", "resultProviderMetadata")
_LEGACY = ("toolInvocations", "reasoning", "experimental_attachments", "annotations")


def read(value: Any) -> Iterator[Dump]:
    """The one chat of a list of messages, or of `{id?, messages}`. Raises InvalidInput when it holds none."""
    chat: Mapping[str, Any] = value if isinstance(value, Mapping) else {}
    messages = objects(chat.get("messages") if chat else value)
    if not messages:
        raise InvalidInput("it holds no messages")
    name = word(chat, "id", "chatId") or word(messages[0], "id") or digest(messages[0])
    key = key_of(name, kind="chat")
    held = settled([_stored(message) for message in messages], key)
    yield Dump(
        format="ai-sdk",
        thread_id=PREFIX + key,
        messages=held.messages,
        title=word(chat, "title"),
        system=held.system,
        left_out=held.left_out,
    )


def _stored(message: Mapping[str, Any]) -> dict[str, Any]:
    text, metadata = message.get("content"), message.get("metadata")
    given = message.get("parts")
    if not isinstance(given, list):
        given = [{"type": "text", "text": text}] if isinstance(text, str) and text else []
    content: dict[str, Any] = {"format": 2, "parts": [_part(part) for part in given]}
    if isinstance(text, str) and text:
        content["content"] = text
    content |= {key: message[key] for key in _LEGACY if message.get(key)}
    if isinstance(metadata, Mapping):
        content["metadata"] = dict(metadata)
    return {"id": message.get("id"), "role": message.get("role"), "createdAt": _time(message), "content": content}


def _time(message: Mapping[str, Any]) -> Any:
    metadata = message.get("metadata")
    return message.get("createdAt") or (metadata.get("createdAt") if isinstance(metadata, Mapping) else None)


def _part(part: Any) -> Any:
    if not isinstance(part, Mapping):
        return part
    kind = part.get("type")
    if kind == "dynamic-tool" or (isinstance(kind, str) and kind.startswith(_TOOL) and "toolInvocation" not in part):
        return _tool(part, word(part, "toolName") if kind == "dynamic-tool" else kind.removeprefix(_TOOL))
    match kind:
        case "reasoning" if "reasoning" not in part:
            text = word(part, "text")
            details = [{"type": "text", "text": text, **_signature(part)}]
            return {**_without(part, "text", "state"), "reasoning": text, "details": details}
        case "text":
            return _without(part, "state")
        case "file" if "url" in part and "data" not in part:
            kept = _without(part, "url", "mediaType")
            return {**kept, "mimeType": word(part, "mediaType", "mimeType"), "data": part["url"]}
        case "source-url":
            source = {"sourceType": "url", "id": word(part, "sourceId"), "url": word(part, "url")}
            if title := word(part, "title"):
                source["title"] = title
            return {**_without(part, "sourceId", "url", "title"), "type": "source", "source": source}
    return dict(part)


def _signature(part: Mapping[str, Any]) -> dict[str, Any]:
    metadata = part.get("providerMetadata")
    anthropic = metadata.get("anthropic") if isinstance(metadata, Mapping) else None
    signature = anthropic.get("signature") if isinstance(anthropic, Mapping) else None
    return {"signature": signature} if isinstance(signature, str) else {}


def _without(part: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in part.items() if key not in keys}


def _tool(part: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Version 4 has its tool parts in the stored form; this reads the later ones."""
    state = _STATES.get(word(part, "state"), word(part, "state"))
    asked = part.get("input")
    invocation: dict[str, Any] = {
        "state": state,
        "toolCallId": word(part, "toolCallId"),
        "toolName": name,
        "args": {} if asked is None else asked,
    }
    if state == "result":
        invocation["result"] = part.get("output")
    invocation |= {key: part[key] for key in ("rawInput", "approval") if part.get(key) is not None}
    if state == "output-error":
        text = part.get("errorText")
        invocation["errorText"] = text if isinstance(text, str) else json_text(text)
    out: dict[str, Any] = {"type": "tool-invocation", "toolInvocation": invocation, **_without(part, *_TOOL_KEYS)}
    metadata = [part.get(key) for key in ("callProviderMetadata", "resultProviderMetadata")]
    found = [value for value in metadata if isinstance(value, Mapping)]
    if found:
        names = {name for value in found for name in value}
        out["providerMetadata"] = {name: _joined(name, found) for name in sorted(names)}
    return out


def _joined(name: str, metadata: list[Mapping[str, Any]]) -> Any:
    values = [value[name] for value in metadata if name in value]
    if all(isinstance(value, Mapping) for value in values):
        return {key: item for value in values for key, item in value.items()}
    return values[-1]
