"""LangChain's messages: `messages_to_dict`, the constructor form of its serialiser, and plain dumps of the objects.

Content is a text or a list of blocks: LangChain's own of version 1, or a provider's. A call stands in `tool_calls`;
blocks of a provider that say the same call again are passed over. Source: the reference of `langchain_core.messages`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memory.errors import InvalidInput
from memory.imports.values import (
    PREFIX,
    Dump,
    digest,
    json_text,
    key_of,
    objects,
    parsed,
    settled,
    stamp_of,
    stamped,
    word,
)
from memory.messages.from_prompt import from_prompt
from memory.messages.prompt import (
    File,
    Message,
    Options,
    Output,
    Part,
    Prompt,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
)
from memory.providers.shared import bare

_ROLES: dict[str, Role] = {"human": "user", "ai": "assistant", "system": "system", "developer": "system"}
_ROLES |= {"tool": "tool", "function": "tool", "user": "user", "assistant": "assistant"}
_PROVIDERS = {
    "google_genai": "gemini",
    "google_vertexai": "vertex",
    "azure_openai": "azure",
    "bedrock_converse": "bedrock",
    "mistralai": "mistral",
    "amazon_bedrock": "bedrock",
}
_MEDIA = {"image": "image/png", "audio": "audio/wav", "video": "video/mp4", "file": "application/octet-stream"}
_CALLS = ("tool_use", "tool_call", "function_call", "tool_call_chunk")


def read(value: Any) -> Iterator[Dump]:
    """The one conversation of a list of messages, of `{messages}`, or of a graph's state (`{values: {messages}}`).

    Raises InvalidInput when it holds none.
    """
    given = value
    if isinstance(value, Mapping):
        state = value.get("values")
        given = (state if isinstance(state, Mapping) else value).get("messages")
    messages = [_plain(message) for message in objects(given)]
    if not messages:
        raise InvalidInput("it holds no messages")
    name = _thread_name(value) or word(messages[0], "id") or digest(objects(given)[0])
    key = key_of(name, kind="chat")
    stored, left_out = _stored(messages, key)
    held = settled(stored, key)
    newest = next((stamp for message in reversed(messages) if (stamp := _stamp(message))), {})
    yield Dump(
        format="langchain",
        thread_id=PREFIX + key,
        messages=held.messages,
        system=[_text(message.get("content")) for message in messages if _role(message) == "system"],
        provider=newest.get("provider", ""),
        model=newest.get("modelId", ""),
        left_out=[*left_out, *held.left_out],
    )


def _thread_name(value: Any) -> str:
    if not isinstance(value, Mapping):
        return ""
    config = value.get("config")
    configurable = config.get("configurable") if isinstance(config, Mapping) else None
    return word(value, "thread_id", "id") or (
        word(configurable, "thread_id") if isinstance(configurable, Mapping) else ""
    )


def _plain(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """The message's own fields, with `type`, whichever form it is in."""
    if "lc" in message:
        path, fields = message.get("id"), message.get("kwargs")
        name = str(path[-1]) if isinstance(path, list) and path else ""
        kind = name.removesuffix("Chunk").removesuffix("Message").lower()
        return {**fields, "type": kind} if isinstance(fields, Mapping) else {"type": kind}
    data, kind = message.get("data"), word(message, "type")
    kind = kind.removesuffix("Chunk").removesuffix("Message").lower()
    return {**(data if isinstance(data, Mapping) else message), "type": kind}


def _role(message: Mapping[str, Any]) -> Role | None:
    kind = word(message, "type")
    return _ROLES.get(word(message, "role") if kind == "chat" else kind)


def _stored(messages: Sequence[Mapping[str, Any]], key: str) -> tuple[list[Mapping[str, Any]], list[tuple[str, str]]]:
    made: list[Message] = []
    left_out: list[tuple[str, str]] = []
    for place, message in enumerate(messages):
        role = _role(message)
        if role is None:
            left_out.append((word(message, "id") or f"{key}#{place}", f"a message of type {message.get('type')!r}"))
        elif role != "system":
            made.append(Message(role, _parts(message, role), id=str(place)))
    out: list[Mapping[str, Any]] = []
    for stored in from_prompt(Prompt(tuple(made))):
        message = messages[int(stored["id"])]
        named = {**stored, "id": word(message, "id") or f"{key}#{stored['id']}"}
        out.append(stamped(named, _stamp(message)))
    return out, left_out


def _stamp(message: Mapping[str, Any]) -> dict[str, str]:
    told = message.get("response_metadata")
    if _role(message) != "assistant" or not isinstance(told, Mapping):
        return {}
    provider = word(told, "model_provider")
    return stamp_of(_PROVIDERS.get(provider, provider), "", word(told, "model_name", "model"))


def _parts(message: Mapping[str, Any], role: Role) -> tuple[Part, ...]:
    if role == "tool":
        return (_result(message),)
    stamp = _stamp(message)
    namespace = stamp.get("provider") or "langchain"
    calls = _calls(message) if role == "assistant" else []
    extra = message.get("additional_kwargs")
    thought = word(extra, "reasoning_content") if isinstance(extra, Mapping) else ""
    parts: list[Part] = [Reasoning(thought)] if thought and role == "assistant" else []
    content = message.get("content")
    if isinstance(content, str):
        parts += [Text(content)] if content or not calls else []
    elif isinstance(content, list):
        parts += [
            part
            for block in content
            for part in _block({"type": "text", "text": block} if isinstance(block, str) else block, role, namespace)
        ]
    return (*parts, *calls)


def _calls(message: Mapping[str, Any]) -> list[Part]:
    made: list[Part] = []
    for call in objects(message.get("tool_calls")):
        made.append(ToolCall(word(call, "id"), word(call, "name"), call.get("args", {})))
    for call in objects(message.get("invalid_tool_calls")):
        made.append(ToolCall(word(call, "id"), word(call, "name"), call.get("args") or ""))
    extra = message.get("additional_kwargs")
    if made or not isinstance(extra, Mapping):
        return made
    for call in objects(extra.get("tool_calls")):
        function = call.get("function")
        if isinstance(function, Mapping):
            made.append(ToolCall(word(call, "id"), word(function, "name"), parsed(function.get("arguments"))))
    function = extra.get("function_call")
    if isinstance(function, Mapping):
        name = word(function, "name")
        made.append(ToolCall(name, name, parsed(function.get("arguments"))))
    return made


def _result(message: Mapping[str, Any]) -> ToolResult:
    name, content = word(message, "name"), message.get("content")
    call_id = word(message, "tool_call_id") or name  # function messages name their call by the function alone
    if message.get("status") == "error":
        return ToolResult(call_id, name, Output("error-text", _text(content)))
    if isinstance(content, str):
        return ToolResult(call_id, name, Output("text", content))
    blocks = content if isinstance(content, list) else [content]
    if all(isinstance(block, str) or _is_text(block) for block in blocks):
        return ToolResult(call_id, name, Output("text", _text(content)))
    pieces = [piece for block in blocks for piece in _content(block)]
    return ToolResult(call_id, name, Output("content", pieces))


def _content(block: Any) -> list[dict[str, Any]]:
    if isinstance(block, str) or _is_text(block):
        return [{"type": "text", "text": _text([block])}]
    file = _file(block) if isinstance(block, Mapping) else None
    if file is not None:
        return [{"type": "media", "data": file.data, "mediaType": file.media_type}]
    return [{"type": "text", "text": json_text(block)}]


def _is_text(block: Any) -> bool:
    return isinstance(block, Mapping) and block.get("type") == "text" and isinstance(block.get("text"), str)


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    said = (block for block in blocks if isinstance(block, str | Mapping))
    texts = [block if isinstance(block, str) else word(block, "text") for block in said]
    return "\n".join(texts)


def _block(block: Any, role: Role, namespace: str) -> list[Part]:
    if not isinstance(block, Mapping):
        return []
    kind = block.get("type")
    if _is_text(block):
        return [Text(block["text"])]
    if role == "assistant":
        if kind in _CALLS:
            return []  # said again in tool_calls
        if (thought := _thought(block)) is not None:
            return [thought]
    if (file := _file(block)) is not None:
        return [file]
    return [Text(word(block, "text"), {namespace: {"block": block}})]


def _thought(block: Mapping[str, Any]) -> Reasoning | None:
    match block.get("type"):
        case "thinking":
            signature = word(block, "signature")
            return Reasoning(word(block, "thinking"), {"anthropic": {"signature": signature}} if signature else None)
        case "redacted_thinking":
            return Reasoning("", {"anthropic": {"redactedData": word(block, "data")}})
        case "reasoning_content" if isinstance(inner := block.get("reasoning_content"), Mapping):
            signature = word(inner, "signature")
            return Reasoning(word(inner, "text"), {"anthropic": {"signature": signature}} if signature else None)
        case "reasoning":
            return Reasoning(_reasoned(block), _openai(block))
    return None


def _reasoned(block: Mapping[str, Any]) -> str:
    summary = "\n\n".join(word(piece, "text") for piece in objects(block.get("summary")))
    return word(block, "reasoning", "text") or summary


def _openai(block: Mapping[str, Any]) -> Options | None:
    sealed, item_id = word(block, "encrypted_content"), word(block, "id")
    if not item_id.startswith("rs_"):
        return None
    return {"openai": {"itemId": item_id, **({"reasoningEncryptedContent": sealed} if sealed else {})}}


def _file(block: Mapping[str, Any]) -> File | None:
    kind = str(block.get("type"))
    if kind == "image_url":
        given = block.get("image_url")
        url = word(given, "url") if isinstance(given, Mapping) else given
        return _from_url(url, "image/*") if isinstance(url, str) and url else None
    source = block.get("source")
    if isinstance(source, Mapping):  # Anthropic's
        block = {**source, "mime_type": word(source, "media_type")}
        block = {key: value for key, value in block.items() if key != "type"}
        kind = "file" if kind == "document" else kind
    if kind not in _MEDIA and kind != "media":
        return None
    media_type = word(block, "mime_type", "mimeType") or _MEDIA.get(kind, "application/octet-stream")
    filename = word(block, "filename", "name") or None
    if data := word(block, "base64", "data"):
        return File(media_type, data, filename)
    url = word(block, "url")
    return _from_url(url, media_type, filename) if url else None


def _from_url(url: str, media_type: str, filename: str | None = None) -> File:
    media_type, data = bare(media_type, url)
    return File(media_type, data, filename)
