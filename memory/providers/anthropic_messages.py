"""The Anthropic Messages protocol: prompt to body and back, replies, errors.

Faithful both ways: nothing is repaired here, and what the protocol can't say raises. What has no place in a prompt is
kept in options of the namespace `anthropic`, and goes back as it came:

    text, file, reasoning   cacheControl, citations (of a text), extra (further keys), block (a block we don't know)
    reasoning               signature, redactedData
    tool call               call: further keys of its block, `type` when it is not `tool_use`
    tool result             result: the same; isError beside a list of content
    message                 role: system (between the turns), joined (same wire message as the results before it), extra

A stored call and its result share their options: `cacheOnCall` and `cacheOnResult` say whose `cacheControl` it is.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from memory.errors import EncodingError, InvalidInput, ProviderError
from memory.messages.prompt import (
    File,
    Message,
    Options,
    Output,
    Part,
    Prompt,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    holds_raw_block,
    is_url,
    raw_block,
)
from memory.messages.values import as_written, write_json
from memory.providers.anthropic_stream import MessageReader
from memory.providers.classify import classify
from memory.providers.shared import (
    NOTHING,
    Landed,
    Places,
    Run,
    Wire,
    as_dict,
    bare,
    count_at,
    encode_body,
    extra_keys,
    invalid,
    is_plain_text,
    list_at,
    mapping,
    namespaced,
    not_an_answer,
    object_in,
    own,
    refuse,
    scalar_at,
    text_at,
    with_extra,
    word_at,
)
from memory.providers.sse import stream_of as stream_of
from memory.providers.streams import add_keys, read_stream
from memory.providers.wire import Chunk, Encoded, Imported, Reply, Settings, Tool, Usage

PROTOCOL = "anthropic-messages"
NAMESPACE = "anthropic"
MAX_TOKENS = 4096
"""Output limit when the settings name none: the protocol requires one."""

_CALL_TYPES = ("tool_use", "server_tool_use", "mcp_tool_use")
_FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool-calls",
    "refusal": "refusal",
    "pause_turn": "pause",
}


class _Text(Struct, frozen=True, gc=False, tag="text"):
    text: str
    citations: Any = UNSET
    cache_control: Any = UNSET


class _Thinking(Struct, frozen=True, gc=False, tag="thinking"):
    thinking: str
    signature: str | UnsetType = UNSET
    cache_control: Any = UNSET


class _Redacted(Struct, frozen=True, gc=False, tag="redacted_thinking"):
    data: str
    cache_control: Any = UNSET


class _ToolUse(Struct, frozen=True, gc=False, tag="tool_use"):
    id: str
    name: str
    input: Any
    cache_control: Any = UNSET


class _ToolResult(Struct, frozen=True, gc=False, tag="tool_result"):
    tool_use_id: str
    content: str | list[Wire]
    is_error: bool | UnsetType = UNSET
    cache_control: Any = UNSET


class _Base64(Struct, frozen=True, gc=False, tag="base64"):
    media_type: str
    data: str


class _Url(Struct, frozen=True, gc=False, tag="url"):
    url: str


class _PlainText(Struct, frozen=True, gc=False, tag="text"):
    media_type: str
    data: str


class _Image(Struct, frozen=True, gc=False, tag="image"):
    source: _Base64 | _Url
    cache_control: Any = UNSET


class _Document(Struct, frozen=True, gc=False, tag="document"):
    source: _Base64 | _Url | _PlainText
    title: str | UnsetType = UNSET
    cache_control: Any = UNSET


class _Message(Struct, frozen=True, gc=False):
    role: str
    content: list[Wire]


# Prompt to body


def encode_request(prompt: Prompt, settings: Settings, *, provider: str) -> Encoded:
    """The request for a prompt. Raises EncodingError naming the place of what Anthropic's blocks can't express."""
    system: list[Wire] = []
    messages: list[Wire] = []
    landed: list[Landed] = []
    runs: list[Run] = []
    content: list[Any] = []
    previous: Message | None = None
    for i, message in enumerate(prompt.messages):
        role = message.role
        if role == "system":
            if messages:
                raise EncodingError("system messages stand before all others", place=f"messages[{i}]")
            landed.append((i, 0, len(system), "system", -1))
            system.append(_system_block(message))
            continue
        options = own(message.options, NAMESPACE) if message.options else NOTHING
        # Options and parted messages are rare: most messages take the short way.
        if previous is None or not ((options or message.parted) and _continues(message, previous, options)):
            content = []
            said: Wire = _Message("assistant" if role == "assistant" else "user", content)
            if options:
                said = _with_role_and_extra(message, content, options)
            messages.append(said)
        number, held = len(messages) - 1, len(content)
        first, start = 0, held
        for j, part in enumerate(message.parts):
            if type(part) is Text and not part.options:
                content.append(_Text(part.text))
            elif (block := _BLOCKS[type(part)](part, role, i, j)) is not None:
                content.append(block)
            else:
                runs.append((i, first, number, start, len(content) - start))
                first, start = j + 1, len(content)
        runs.append((i, first, number, start, len(content) - start))
        if options and (marker := options.get("cacheControl")) is not None and len(content) > held:
            content[-1] = {"cache_control": marker, **as_dict(content[-1])}
        previous = message
    return Encoded("/messages", encode_body(_body(system, messages, settings)), Places(landed, runs))


def as_stream(encoded: Encoded, *, provider: str) -> Encoded:
    """The same request, asking for a streamed answer."""
    return add_keys(encoded, b'"stream":true')


def _with_role_and_extra(message: Message, content: list[Wire], options: Mapping[str, Any]) -> Wire:
    role = "assistant" if message.role == "assistant" else "user"
    if role == "user" and options.get("role") == "system":
        role = "system"
    return with_extra(_Message(role, content), options.get("extra"))


def _continues(message: Message, previous: Message, options: Mapping[str, Any]) -> bool:
    """Whether the message belongs to the wire message of the one before: only where it came out of one."""
    if message.parted:
        return message.role == previous.role == "assistant"
    if not options:
        return False
    return options.get("joined") is True and {message.role, previous.role} == {"user", "tool"}


def _body(system: list[Wire], messages: list[Wire], settings: Settings) -> dict[str, Any]:
    # Hosts that name the model in the URL take none in the body.
    body: dict[str, Any] = {"model": settings.model_id} if settings.model_id else {}
    body["max_tokens"] = MAX_TOKENS if settings.max_tokens is None else settings.max_tokens
    if system:
        body["system"] = system
    body["messages"] = messages
    if settings.tools:
        body["tools"] = [_tool(tool, f"tools[{i}]") for i, tool in enumerate(settings.tools)]
    if settings.tool_choice is not None:
        body["tool_choice"] = _tool_choice(settings.tool_choice)
    if settings.temperature is not None:
        body["temperature"] = settings.temperature
    if settings.top_p is not None:
        body["top_p"] = settings.top_p
    if settings.stop:
        body["stop_sequences"] = settings.stop
    for key, value in settings.extra.items():
        if key in body or key == "system":
            raise EncodingError("is set already and can't be a further key", place=f"settings.extra.{key}")
        if key != "stream":
            body[key] = value
    return body


def _tool(tool: Tool, place: str) -> Mapping[str, Any]:
    raw = tool.raw if tool.raw is not None and "function" not in tool.raw else None
    if not tool.name:
        if raw is None:
            raise EncodingError("a tool that another provider runs", place=place)
        return raw
    # The fields win over the raw form: a pass may have renamed the tool.
    out: dict[str, Any] = {**(raw or {}), "name": tool.name}
    if tool.description:
        out["description"] = tool.description
    out["input_schema"] = tool.parameters or {"type": "object", "properties": {}}
    return out


def _tool_choice(choice: str | Mapping[str, Any]) -> dict[str, Any]:
    match choice:
        case "auto" | "none":
            return {"type": choice}
        case "required":
            return {"type": "any"}
        case {"type": "tool", "toolName": str() as name}:
            return {"type": "tool", "name": name}
    raise EncodingError(f"unknown choice {choice!r}", place="settings.tool_choice")


def _system_block(message: Message) -> Wire:
    options = own(message.options, NAMESPACE)
    if isinstance(block := options.get("block"), Mapping):
        return dict(block)
    text = _Text(message.text, _unset(options, "citations"), _unset(options, "cacheControl"))
    return with_extra(text, options.get("extra"))


def _unset(options: Mapping[str, Any], key: str) -> Any:
    value = options.get(key)
    return UNSET if value is None else value


def _text(part: Text, role: str, i: int, j: int) -> Wire | None:
    """The block of a text; None for one that only another protocol's namespace could say and that has no text."""
    if not part.options or (part.text and NAMESPACE not in part.options):
        return _Text(part.text)
    if (block := raw_block(part, NAMESPACE)) is not None:
        return dict(block)
    if not part.text and holds_raw_block(part):
        return None
    options = own(part.options, NAMESPACE)
    text = _Text(part.text, _unset(options, "citations"), _unset(options, "cacheControl"))
    return with_extra(text, options.get("extra"))


def _marker(options: Mapping[str, Any], mine: str, others: str) -> Any:
    """The cache marker of a call or a result, unless it is said to belong to the other one."""
    return UNSET if options.get(others) and not options.get(mine) else _unset(options, "cacheControl")


def _call(part: ToolCall, role: str, i: int, j: int) -> Wire:
    if role != "assistant":
        raise refuse(part, role, f"messages[{i}].content[{j}]")
    if not part.options and not part.provider_executed:
        return _ToolUse(part.id, part.name, as_written(part.input))
    options = own(part.options, NAMESPACE)
    marker = _marker(options, "cacheOnCall", "cacheOnResult")
    further = mapping(options.get("call"))
    kind = further.get("type") or ("server_tool_use" if part.provider_executed else "tool_use")
    use = _ToolUse(part.id, part.name, part.input, marker)
    if kind == "tool_use" and not further:
        return use
    return {**further, **as_dict(use), "type": kind}


def _result(part: ToolResult, role: str, i: int, j: int) -> Wire:
    if not part.options and part.output.type == "json" and role != "assistant":
        return _ToolResult(part.call_id, write_json(part.output.value))
    options = own(part.options, NAMESPACE) if part.options else NOTHING
    marker = _marker(options, "cacheOnResult", "cacheOnCall")
    further = mapping(options.get("result"))
    value = part.output.value
    if hosted := further.get("type"):
        out = {**further, "type": hosted, "tool_use_id": part.call_id, "content": value}
        return out if marker is UNSET else {**out, "cache_control": marker}
    if role == "assistant":
        raise EncodingError(
            "a result that another provider's tool gave has no block here", place=f"messages[{i}].content[{j}]"
        )
    content: str | list[Wire]
    if part.output.type == "content":
        place = f"messages[{i}].content[{j}]"
        content = [block for item in value if (block := _result_item(item, place)) is not None]
    else:
        content = value if isinstance(value, str) and part.output.type.endswith("text") else write_json(value)
    is_error = True if part.output.is_error or options.get("isError") is True else UNSET
    return with_extra(_ToolResult(part.call_id, content, is_error, marker), further)


def _result_item(item: Mapping[str, Any], place: str) -> Wire | None:
    options = mapping(item.get("providerOptions"))
    if isinstance(block := own(options, NAMESPACE).get("block"), Mapping):
        return dict(block)
    match item:
        case {"type": "text", "text": str() as text}:
            return _Text(text) if text or not options else None
        case {"type": "media", "data": str() as data, "mediaType": str() as media_type}:
            return _file(media_type, data, None, place, NOTHING)
    raise EncodingError(f"a result can't hold {item.get('type')!r}", place=place)


def _reasoning(part: Reasoning, role: str, i: int, j: int) -> Wire:
    if role != "assistant":
        raise refuse(part, role, f"messages[{i}].content[{j}]")
    options = own(part.options, NAMESPACE) if part.options else NOTHING
    marker = _unset(options, "cacheControl")
    block: Wire
    if isinstance(data := options.get("redactedData"), str) and data:
        block = _Redacted(data, marker)
    else:
        signature = options.get("signature")
        block = _Thinking(part.text, signature if isinstance(signature, str) else UNSET, marker)
    return with_extra(block, options.get("extra"))


def _file_block(part: File, role: str, i: int, j: int) -> Wire:
    place = f"messages[{i}].content[{j}]"
    if role == "tool":
        raise refuse(part, role, place)
    options = own(part.options, NAMESPACE)
    return with_extra(_file(part.media_type, part.data, part.filename, place, options), options.get("extra"))


def _file(media_type: str, data: str, filename: str | None, place: str, options: Mapping[str, Any]) -> Wire:
    marker = _unset(options, "cacheControl")
    media_type, data = bare(media_type, data)
    remote = is_url(data)
    if media_type.startswith("image/"):
        return _Image(_Url(data) if remote else _Base64(media_type, data), marker)
    title = UNSET if filename is None else filename
    if media_type == "application/pdf":
        return _Document(_Url(data) if remote else _Base64(media_type, data), title, marker)
    if media_type == "text/plain" and not remote:
        try:
            text = base64.b64decode(data, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError) as error:
            raise EncodingError("a text file whose data is no base64 of UTF-8", place=place) from error
        return _Document(_PlainText(media_type, text), title, marker)
    where = "by URL" if remote else "inline"
    raise EncodingError(f"a file of type {media_type!r} can't be sent {where}", place=place)


_BLOCKS: dict[type[Part], Callable[..., Wire | None]] = {
    Text: _text,
    Reasoning: _reasoning,
    File: _file_block,
    ToolCall: _call,
    ToolResult: _result,
}


# Body to prompt


class _Calls:
    """Names and arguments of the calls read so far; a result belongs to the nearest earlier call of its id."""

    def __init__(self) -> None:
        self._by_id: dict[str, tuple[str, Any]] = {}

    def add(self, call: ToolCall) -> None:
        self._by_id[call.id] = (call.name, call.input)

    def find(self, call_id: str) -> tuple[str, Any]:
        return self._by_id.get(call_id) or ("", UNSET)


def decode_request(body: Mapping[str, Any], *, provider: str) -> Imported:
    """The prompt and settings of a request body. Raises InvalidInput naming the place of what does not fit."""
    messages = [*_decode_system(body.get("system"))]
    calls = _Calls()
    for i, message in enumerate(list_at(body, "messages")):
        messages.extend(_decode_message(object_in(message, f"messages[{i}]"), f"messages[{i}]", calls))
    return Imported(Prompt(tuple(messages)), _decode_settings(body))


def _decode_system(value: Any) -> list[Message]:
    if value is None:
        return []
    if isinstance(value, str):
        return [Message("system", value)]
    if not isinstance(value, list):
        raise invalid("system", "a text or a list", value)
    out = []
    for i, item in enumerate(value):
        block = object_in(item, f"system[{i}]")
        if block.get("type") == "text":
            out.append(Message("system", text_at(block, "text", f"system[{i}]"), _text_options(block)))
        else:
            out.append(Message("system", _visible(block), {NAMESPACE: {"block": block}}))
    return out


def _decode_message(message: Mapping[str, Any], place: str, calls: _Calls) -> list[Message]:
    role, content = message.get("role"), message.get("content")
    if role not in ("user", "assistant", "system"):
        raise invalid(f"{place}.role", "user, assistant or system", role)
    extra = extra_keys(message, "role", "content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list_at(message, "content", place)
    places = [f"{place}.content[{j}]" for j in range(len(blocks))]
    if role == "assistant":
        parts = tuple(_decode_assistant(object_in(b, p), p, calls) for b, p in zip(blocks, places, strict=True))
        return [Message("assistant", parts, namespaced(NAMESPACE, {"extra": extra}))]
    marks: dict[str, Any] = {"role": "system" if role == "system" else None, "extra": extra}
    runs: list[tuple[bool, list[Part]]] = []
    for block, at in zip(blocks, places, strict=True):
        block = object_in(block, at)
        is_result = block.get("type") == "tool_result"
        if not runs or runs[-1][0] != is_result:
            runs.append((is_result, []))
        runs[-1][1].append(_decode_result(block, at, calls) if is_result else _decode_user(block, at))
    out = []
    for number, (is_result, made) in enumerate(runs or [(False, [])]):
        options = namespaced(NAMESPACE, {**marks, "joined": number > 0})
        out.append(Message("tool" if is_result else "user", tuple(made), options))
    return out


def _decode_user(block: Mapping[str, Any], place: str) -> Part:
    match block.get("type"):
        case "text":
            return Text(text_at(block, "text", place), _text_options(block))
        case "image" | "document":
            return _decode_file(block) or _unknown(block)
        case _:
            return _unknown(block)


def _decode_assistant(block: Mapping[str, Any], place: str, calls: _Calls) -> Part:
    kind = block.get("type")
    if kind == "text":
        return Text(text_at(block, "text", place), _text_options(block))
    if kind in _CALL_TYPES:
        call = _decode_call(block, place)
        calls.add(call)
        return call
    if kind == "thinking":
        signature = block.get("signature")
        values = {"signature": signature, "cacheControl": block.get("cache_control")}
        values["extra"] = extra_keys(block, "type", "thinking", "signature", "cache_control")
        # The namespace alone, also an empty one, says who wrote the block.
        return Reasoning(text_at(block, "thinking", place), namespaced(NAMESPACE, values) or {NAMESPACE: {}})
    if kind == "redacted_thinking":
        return Reasoning("", {NAMESPACE: {"redactedData": text_at(block, "data", place)}})
    if isinstance(kind, str) and kind.endswith("_tool_result") and isinstance(block.get("tool_use_id"), str):
        return _decode_hosted_result(kind, block, calls)
    if kind in ("image", "document") and (file := _decode_file(block)) is not None:
        return file
    return _unknown(block)


def _text_options(block: Mapping[str, Any]) -> Options | None:
    if len(block) == 2:
        return None
    values = {"citations": block.get("citations"), "cacheControl": block.get("cache_control")}
    values["extra"] = extra_keys(block, "type", "text", "citations", "cache_control")
    return namespaced(NAMESPACE, values)


def _unknown(block: Mapping[str, Any]) -> Text:
    return Text(_visible(block), {NAMESPACE: {"block": block}})


def _visible(block: Mapping[str, Any]) -> str:
    """What others may read of a block we don't know."""
    return next((block[key] for key in ("text", "content") if isinstance(block.get(key), str)), "")


def _decode_call(block: Mapping[str, Any], place: str) -> ToolCall:
    kind, marker = block["type"], block.get("cache_control")
    further = extra_keys(block, "type", "id", "name", "input", "cache_control")
    if kind != "tool_use":
        further["type"] = kind
    values = {"call": further, "cacheControl": marker, "cacheOnCall": marker is not None}
    return ToolCall(
        text_at(block, "id", place),
        text_at(block, "name", place),
        block.get("input", {}),
        None if kind == "tool_use" else True,
        options=namespaced(NAMESPACE, values),
    )


def _decode_result(block: Mapping[str, Any], place: str, calls: _Calls) -> ToolResult:
    call_id, content, marker = text_at(block, "tool_use_id", place), block.get("content"), block.get("cache_control")
    is_error = block.get("is_error") is True
    values = {
        "result": extra_keys(block, "type", "tool_use_id", "content", "cache_control", "is_error"),
        "cacheControl": marker,
        "cacheOnResult": marker is not None,
    }
    output = _decode_output(content, place, is_error)
    values["isError"] = is_error and output.type == "content"
    name, arguments = calls.find(call_id)
    return ToolResult(call_id, name, output, arguments, namespaced(NAMESPACE, values))


def _decode_output(content: Any, place: str, is_error: bool) -> Output:
    if content is None:
        content = ""
    if isinstance(content, list) and len(content) == 1 and is_plain_text(content[0]):
        content = content[0]["text"]
    if isinstance(content, str):
        return Output("error-text" if is_error else "text", content)
    if not isinstance(content, list):
        raise invalid(f"{place}.content", "a text or a list", content)
    items = [_decode_item(object_in(item, f"{place}.content[{k}]")) for k, item in enumerate(content)]
    return Output("content", items)


def _decode_item(item: Mapping[str, Any]) -> dict[str, Any]:
    if is_plain_text(item):
        return {"type": "text", "text": item["text"]}
    file = _decode_file(item) if item.get("type") in ("image", "document") else None
    if file is not None and file.options is None and file.filename is None:
        return {"type": "media", "data": file.data, "mediaType": file.media_type}
    return {"type": "text", "text": _visible(item), "providerOptions": {NAMESPACE: {"block": item}}}


def _decode_hosted_result(kind: str, block: Mapping[str, Any], calls: _Calls) -> ToolResult:
    content, marker = block.get("content"), block.get("cache_control")
    further = {"type": kind, **extra_keys(block, "type", "tool_use_id", "content", "cache_control")}
    values = {"result": further, "cacheControl": marker, "cacheOnResult": marker is not None}
    name, arguments = calls.find(block["tool_use_id"])
    output = Output("text" if isinstance(content, str) else "json", content)
    name = name or kind.removesuffix("_tool_result")
    return ToolResult(block["tool_use_id"], name, output, arguments, namespaced(NAMESPACE, values))


def _decode_file(block: Mapping[str, Any]) -> File | None:
    """The file of an image or document block; None for a source that a file part can't hold."""
    is_image = block["type"] == "image"
    match block.get("source"):
        case {"type": "base64", "media_type": str() as media_type, "data": str() as data}:
            if not (media_type.startswith("image/") if is_image else media_type == "application/pdf"):
                return None
        case {"type": "url", "url": str() as data} if is_url(data):
            media_type = "image/*" if is_image else "application/pdf"
        case {"type": "text", "media_type": "text/plain", "data": str() as text} if not is_image:
            media_type, data = "text/plain", base64.b64encode(text.encode("utf-8", "surrogatepass")).decode()
        case _:
            return None
    title = None if is_image else block.get("title")
    values = {"cacheControl": block.get("cache_control")}
    values["extra"] = extra_keys(block, "type", "source", "cache_control", *(() if is_image else ("title",)))
    return File(media_type, data, title, namespaced(NAMESPACE, values))


def _decode_settings(body: Mapping[str, Any]) -> Settings:
    extra = extra_keys(
        body, "model", "max_tokens", "system", "messages", "tools", "temperature", "top_p", "stop_sequences", "stream"
    )
    choice = _decode_choice(extra.get("tool_choice"))
    if choice is not None:
        del extra["tool_choice"]
    return Settings(
        model_id=scalar_at(body, "model", str) or "",
        max_tokens=scalar_at(body, "max_tokens", int),
        temperature=scalar_at(body, "temperature", int, float),
        top_p=scalar_at(body, "top_p", int, float),
        stop=tuple(list_at(body, "stop_sequences")),
        tools=tuple(_decode_tool(object_in(t, f"tools[{i}]")) for i, t in enumerate(list_at(body, "tools"))),
        tool_choice=choice,
        extra=extra,
    )


def _decode_choice(choice: Any) -> str | dict[str, Any] | None:
    match choice:
        case {"type": "auto" | "none" as kind} if len(choice) == 1:
            return str(kind)
        case {"type": "any"} if len(choice) == 1:
            return "required"
        case {"type": "tool", "name": str() as name} if len(choice) == 2:
            return {"type": "tool", "toolName": name}
    return None


def _decode_tool(tool: Mapping[str, Any]) -> Tool:
    name, schema = tool.get("name"), tool.get("input_schema")
    if not isinstance(name, str) or not isinstance(schema, Mapping):
        return Tool("", raw=tool)
    is_plain = not extra_keys(tool, "name", "description", "input_schema")
    return Tool(name, tool.get("description") or "", schema, None if is_plain else tool)


# Replies, streams and errors


def decode_reply(body: Mapping[str, Any], *, provider: str) -> Reply:
    """The parts of an answer. Input tokens count those read from and written to the cache.

    Raises ProviderError for an error that came as an answer, and for what can't be read as one.
    """
    content = body.get("content")
    if not isinstance(content, list) or body.get("error"):
        raise not_an_answer(provider, body, "no content")
    calls = _Calls()
    try:
        places = [f"content[{j}]" for j in range(len(content))]
        parts = tuple(_decode_assistant(object_in(b, p), p, calls) for b, p in zip(content, places, strict=True))
    except InvalidInput as error:
        raise not_an_answer(provider, body, str(error)) from error
    usage = mapping(body.get("usage"))
    cached = count_at(usage, "cache_read_input_tokens")
    return Reply(
        parts,
        _FINISH.get(word_at(body, "stop_reason"), "other"),
        Usage(
            input_tokens=count_at(usage, "input_tokens") + cached + count_at(usage, "cache_creation_input_tokens"),
            output_tokens=count_at(usage, "output_tokens"),
            cached_tokens=cached,
            reasoning_tokens=count_at(mapping(usage.get("output_tokens_details")), "thinking_tokens"),
        ),
        word_at(body, "id"),
        word_at(body, "model"),
    )


def decode_stream(pieces: Iterable[bytes], *, provider: str) -> Iterator[Chunk]:
    """The chunks of a streamed answer; it ends with its `message_stop`, and nothing behind that is read."""
    reader = MessageReader(lambda body: decode_reply(body, provider=provider), provider)
    return read_stream(pieces, reader, provider=provider)


def decode_error(
    status: int, headers: Mapping[str, str], body: str, *, provider: str, now: datetime | None = None
) -> ProviderError:
    """The error that an answer means; see `classify`."""
    return classify(provider, status, headers, body, now)
