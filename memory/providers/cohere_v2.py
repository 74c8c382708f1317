"""Cohere's chat protocol (v2): prompt to body and back, replies, streams, errors.

Faithful both ways: nothing is repaired here, and what the protocol can't say raises. What has no place in a prompt is
kept in options of the namespace `cohere`, and goes back as it came:

    text           citations (those of its message), block (a content part we don't know), extra
    reasoning      toolPlan: what the model said it would do, beside its calls; else a part of the content
    file           inner (further keys of its URL, such as detail), extra
    tool call      rawArguments (the input is a text that is no JSON), callExtra
    tool result    resultExtra
    message        extra; joined (same wire message as the system text before it); role: system between the turns
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from memory.errors import EncodingError, InvalidInput, ProviderError
from memory.messages.halves import write_mended
from memory.messages.prompt import (
    File,
    Message,
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
from memory.messages.values import write_json
from memory.providers.classify import classify
from memory.providers.cohere_stream import ChatReader
from memory.providers.shared import (
    NOTHING,
    Landed,
    Places,
    Wire,
    as_dict,
    bare,
    count_at,
    encode_body,
    extra_keys,
    invalid,
    is_plain_text,
    list_at,
    lone_text,
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

PROTOCOL = "cohere-v2"
NAMESPACE = "cohere"

_FINISH = {
    "COMPLETE": "stop",
    "STOP_SEQUENCE": "stop",
    "MAX_TOKENS": "length",
    "TOOL_CALL": "tool-calls",
    "ERROR": "error",
    "TIMEOUT": "error",
}


class _Text(Struct, frozen=True, gc=False, tag="text"):
    text: str


class _Thinking(Struct, frozen=True, gc=False, tag="thinking"):
    thinking: str


class _Url(Struct, frozen=True, gc=False):
    url: str


class _Image(Struct, frozen=True, gc=False, tag="image_url"):
    image_url: Wire


class _Function(Struct, frozen=True, gc=False):
    name: str
    arguments: str


class _Call(Struct, frozen=True, gc=False, tag="function"):
    id: str
    function: _Function


class _Message(Struct, frozen=True, gc=False):
    role: str
    content: str | list[Wire]


class _Assistant(Struct, frozen=True, gc=False):
    role: str
    content: str | list[Wire] | UnsetType = UNSET
    tool_plan: str | UnsetType = UNSET
    tool_calls: list[Wire] | UnsetType = UNSET
    citations: list[Any] | UnsetType = UNSET


class _ToolMessage(Struct, frozen=True, gc=False):
    role: str
    tool_call_id: str
    content: str | list[Wire]


# Prompt to body


def encode_request(prompt: Prompt, settings: Settings, *, provider: str) -> Encoded:
    """The request for a prompt. Raises EncodingError naming the place of what Cohere's messages can't express."""
    messages: list[Wire] = []
    landed: list[Landed] = []
    for i, message in enumerate(prompt.messages):
        role, number = message.role, len(messages)
        if role in ("user", "assistant") and not message.options and (text := lone_text(message)) is not None:
            landed.append((i, 0, number, "content", -1))
            messages.append(_Message(role, text))
            continue
        options = own(message.options, NAMESPACE) if message.options else NOTHING
        match role:
            case "system":
                if options.get("joined") is True and i and prompt.messages[i - 1].role == "system":
                    messages[-1] = _joined(messages[-1], message, options)
                    number -= 1
                else:
                    messages.append(_system(message, options))
                landed.append((i, 0, number, "", -1))
            case "user":
                landed.append((i, -1, number, "", -1))
                said = _Message(
                    "system" if options.get("role") == "system" else "user", _said(message, i, number, landed)
                )
                messages.append(with_extra(said, options.get("extra")) if options else said)
            case "assistant":
                landed.append((i, -1, number, "", -1))
                turn = _assistant(message, i, number, landed)
                messages.append(with_extra(turn, options.get("extra")) if options else turn)
            case "tool":
                for j, part in enumerate(message.parts):
                    if not isinstance(part, ToolResult):
                        raise refuse(part, "tool", f"messages[{i}].content[{j}]")
                    landed.append((i, j, len(messages), "", -1))
                    messages.append(_tool_message(part, i, j))
    return Encoded("/chat", encode_body(_body(messages, settings)), Places(landed))


def as_stream(encoded: Encoded, *, provider: str) -> Encoded:
    """The same request, asking for a streamed answer."""
    return add_keys(encoded, b'"stream":true')


def _body(messages: list[Wire], settings: Settings) -> dict[str, Any]:
    body: dict[str, Any] = {"model": settings.model_id} if settings.model_id else {}
    body["messages"] = messages
    if settings.max_tokens is not None:
        body["max_tokens"] = settings.max_tokens
    if settings.tools:
        body["tools"] = [_tool(tool, f"tools[{i}]") for i, tool in enumerate(settings.tools)]
    if settings.tool_choice is not None and settings.tool_choice != "auto":
        body["tool_choice"] = _tool_choice(settings.tool_choice)
    if settings.temperature is not None:
        body["temperature"] = settings.temperature
    if settings.top_p is not None:
        body["p"] = settings.top_p
    if settings.stop:
        body["stop_sequences"] = settings.stop
    for key, value in settings.extra.items():
        if key in body:
            raise EncodingError("is set already and can't be a further key", place=f"settings.extra.{key}")
        if key != "stream":
            body[key] = value
    return body


def _tool(tool: Tool, place: str) -> dict[str, Any]:
    raw = mapping(tool.raw)
    function = mapping(raw.get("function"))
    if not tool.name:
        raise EncodingError("a tool that a provider runs", place=place)
    # The fields win over the raw form: a pass may have renamed the tool.
    out: dict[str, Any] = {**function, "name": tool.name}
    if tool.description:
        out["description"] = tool.description
    out["parameters"] = tool.parameters or {"type": "object", "properties": {}}
    return {**(raw if function else {}), "type": "function", "function": out}


def _tool_choice(choice: str | Mapping[str, Any]) -> str:
    match choice:
        case "none" | "required":
            return str(choice).upper()
        case {"type": "tool", "toolName": str() as name}:
            raise EncodingError(f"there is no way to ask for one tool ({name!r})", place="settings.tool_choice")
    raise EncodingError(f"unknown choice {choice!r}", place="settings.tool_choice")


def _system(message: Message, options: Mapping[str, Any]) -> Wire:
    part = options.get("part")
    content: str | list[Wire] = [with_extra(_Text(message.text), part)] if part else message.text
    return with_extra(_Message("system", content), options.get("extra"))


def _joined(before: Wire, message: Message, options: Mapping[str, Any]) -> Wire:
    """The system message `before` with one more text."""
    whole = as_dict(before)
    old = whole["content"]
    content = [_Text(old)] if isinstance(old, str) else list(old)
    return {**whole, "content": [*content, with_extra(_Text(message.text), options.get("part"))]}


def _said(message: Message, i: int, number: int, landed: list[Landed]) -> str | list[Wire]:
    if (text := lone_text(message)) is not None:
        landed.append((i, 0, number, "content", -1))
        return text
    content: list[Wire] = []
    for j, part in enumerate(message.parts):
        if not isinstance(part, Text | File):
            raise refuse(part, "user", f"messages[{i}].content[{j}]")
        if (block := _content_part(part, i, j)) is not None:
            landed.append((i, j, number, "content", len(content)))
            content.append(block)
    return content


def _content_part(part: Text | File, i: int, j: int) -> Wire | None:
    """The content part; None for one that only another protocol's namespace could say and that has no text."""
    if isinstance(part, File):
        return _file(part, i, j)
    if not part.options:
        return _Text(part.text)
    if (block := raw_block(part, NAMESPACE)) is not None:
        return dict(block)
    if not part.text and holds_raw_block(part):
        return None
    return with_extra(_Text(part.text), own(part.options, NAMESPACE).get("extra"))


def _file(part: File, i: int, j: int) -> Wire:
    media_type, data = bare(part.media_type, part.data)
    if not media_type.startswith("image/"):
        raise EncodingError(f"a file of type {media_type!r} can't be sent", place=f"messages[{i}].content[{j}]")
    options = own(part.options, NAMESPACE) if part.options else NOTHING
    url = data if is_url(data) else f"data:{media_type};base64,{data}"
    return with_extra(_Image(with_extra(_Url(url), options.get("inner"))), options.get("extra"))


def _assistant(message: Message, i: int, number: int, landed: list[Landed]) -> Wire:
    content: list[Wire] = []
    first = 0  # the place of the first piece of content among those landed
    calls: list[Wire] = []
    plans: list[str] = []
    citations: list[Any] = []
    for j, part in enumerate(message.parts):
        mine = own(part.options, NAMESPACE) if part.options else NOTHING
        # By exact type: a class of msgspec's is slow to say that something is none of its own.
        if type(part) is Text or type(part) is File:
            if (block := _content_part(part, i, j)) is not None:
                first = first if content else len(landed)
                landed.append((i, j, number, "content", len(content)))
                content.append(block)
        elif type(part) is Reasoning and mine.get("toolPlan") is True:
            landed.append((i, j, number, "tool_plan", -1))
            plans.append(part.text)
        elif type(part) is Reasoning:
            first = first if content else len(landed)
            landed.append((i, j, number, "content", len(content)))
            content.append(with_extra(_Thinking(part.text), mine.get("extra")))
        elif type(part) is ToolCall:
            if part.provider_executed:
                raise EncodingError("a call that a provider ran itself", place=f"messages[{i}].content[{j}]")
            landed.append((i, j, number, "tool_calls", len(calls)))
            calls.append(_call(part, mine, i, j))
        else:
            raise refuse(part, "assistant", f"messages[{i}].content[{j}]")
        if mine and isinstance(cited := mine.get("citations"), list):
            citations.extend(cited)
    said: str | list[Wire] | UnsetType = content
    if len(content) == 1 and isinstance(only := content[0], _Text):
        said = only.text
        landed[first] = (*landed[first][:4], -1)
    elif not content:
        said = UNSET if calls or plans else ""
    plan = "\n".join(plans) if plans else UNSET
    return _Assistant("assistant", said, plan, calls or UNSET, citations or UNSET)


def _call(part: ToolCall, options: Mapping[str, Any], i: int, j: int) -> Wire:
    is_raw = options.get("rawArguments") is True and isinstance(part.input, str)
    try:
        arguments = part.input if is_raw else write_json(part.input)
    except (UnicodeError, TypeError, ValueError, RecursionError) as error:
        raise EncodingError(f"arguments that are no JSON: {error}", place=f"messages[{i}].content[{j}]") from error
    return with_extra(_Call(part.id, _Function(part.name, arguments)), options.get("callExtra"))


def _tool_message(part: ToolResult, i: int, j: int) -> Wire:
    options = own(part.options, NAMESPACE) if part.options else NOTHING
    value = part.output.value
    content: str | list[Wire]
    if part.output.type == "content":
        place = f"messages[{i}].content[{j}]"
        content = [block for item in value if (block := _item(item, place)) is not None]
    else:
        content = value if isinstance(value, str) and part.output.type.endswith("text") else write_json(value)
    return with_extra(_ToolMessage("tool", part.call_id, content), options.get("resultExtra"))


def _item(item: Mapping[str, Any], place: str) -> Wire | None:
    options = mapping(item.get("providerOptions"))
    if isinstance(block := own(options, NAMESPACE).get("block"), Mapping):
        return dict(block)
    match item:
        case {"type": "text", "text": str() as text}:
            return _Text(text) if text or not options else None
    raise EncodingError(f"a result can't hold {item.get('type')!r}", place=place)


# Body to prompt


def decode_request(body: Mapping[str, Any], *, provider: str) -> Imported:
    """The prompt and settings of a request body. Raises InvalidInput naming the place of what is no chat request.

    Neighbouring `tool` messages become one message with several results.
    """
    messages: list[Message] = []
    calls: dict[str, ToolCall] = {}
    for i, item in enumerate(list_at(body, "messages")):
        place = f"messages[{i}]"
        message = object_in(item, place)
        match message.get("role"):
            case "system":
                leads = all(earlier.role == "system" for earlier in messages)
                messages.extend(_decode_system(message, place, leads=leads))
            case "user":
                extra = extra_keys(message, "role", "content")
                messages.append(Message("user", _decode_said(message, place), namespaced(NAMESPACE, {"extra": extra})))
            case "assistant":
                parts = _decode_assistant(message, place)
                calls.update({part.id: part for part in parts if isinstance(part, ToolCall)})
                extra = extra_keys(message, "role", "content", "tool_calls", "tool_plan", "citations")
                messages.append(Message("assistant", parts, namespaced(NAMESPACE, {"extra": extra})))
            case "tool":
                result = _decode_result(message, place, calls)
                if messages and (last := messages[-1]).role == "tool":
                    messages[-1] = Message("tool", (*last.parts, result))
                else:
                    messages.append(Message("tool", (result,)))
            case role:
                raise invalid(f"{place}.role", "system, user, assistant or tool", role)
    return Imported(Prompt(tuple(messages)), _decode_settings(body))


def _decode_system(message: Mapping[str, Any], place: str, *, leads: bool) -> list[Message]:
    extra = extra_keys(message, "role", "content")
    if not leads:
        options = namespaced(NAMESPACE, {"role": "system", "extra": extra})
        return [Message("user", _decode_said(message, place), options)]
    content = message.get("content")
    if isinstance(content, str):
        return [Message("system", content, namespaced(NAMESPACE, {"extra": extra}))]
    out = []
    for j, item in enumerate(list_at(message, "content", place)):
        block = object_in(item, f"{place}.content[{j}]")
        values = {"part": extra_keys(block, "type", "text"), "joined": j > 0, "extra": {} if j else extra}
        out.append(Message("system", text_at(block, "text", f"{place}.content[{j}]"), namespaced(NAMESPACE, values)))
    return out


def _decode_said(message: Mapping[str, Any], place: str) -> tuple[Part, ...]:
    content = message.get("content")
    if isinstance(content, str):
        return (Text(content),)
    blocks = enumerate(list_at(message, "content", place))
    return tuple(
        _decode_part(object_in(block, f"{place}.content[{j}]"), f"{place}.content[{j}]") for j, block in blocks
    )


def _decode_part(block: Mapping[str, Any], place: str) -> Part:
    match block.get("type"):
        case "text":
            extra = extra_keys(block, "type", "text")
            return Text(text_at(block, "text", place), namespaced(NAMESPACE, {"extra": extra}))
        case "thinking":
            extra = extra_keys(block, "type", "thinking")
            # The namespace alone, also an empty one, says who wrote the block.
            options = namespaced(NAMESPACE, {"extra": extra}) or {NAMESPACE: {}}
            return Reasoning(text_at(block, "thinking", place), options)
        case "image_url":
            return _decode_image(block) or _unknown(block)
    return _unknown(block)


def _unknown(block: Mapping[str, Any]) -> Text:
    return Text(_visible(block), {NAMESPACE: {"block": block}})


def _visible(block: Mapping[str, Any]) -> str:
    """What others may read of a content part we don't know."""
    match block:
        case {"text": str() as text} | {"document": {"data": str() as text}}:
            return text
        case {"document": {"data": Mapping() as data}}:
            return word_at(data, "text") or word_at(data, "snippet") or write_mended(data)
    return ""


def _decode_image(block: Mapping[str, Any]) -> File | None:
    image = mapping(block.get("image_url"))
    if not isinstance(uri := image.get("url"), str):
        return None
    media_type, data = bare("image/*", uri)
    if not media_type.startswith("image/") or data.startswith("data:"):
        return None
    values = {"inner": extra_keys(image, "url"), "extra": extra_keys(block, "type", "image_url")}
    return File(media_type, data, None, namespaced(NAMESPACE, values))


def _decode_assistant(message: Mapping[str, Any], place: str) -> tuple[Part, ...]:
    parts: list[Part] = []
    if isinstance(plan := message.get("tool_plan"), str) and plan:
        parts.append(Reasoning(plan, {NAMESPACE: {"toolPlan": True}}))
    # An empty text beside calls means as little as none.
    if message.get("content") or not message.get("tool_calls"):
        parts.extend(_decode_said(message, place))
    for k, item in enumerate(list_at(message, "tool_calls", place)):
        at = f"{place}.tool_calls[{k}]"
        parts.append(_decode_call(object_in(item, at), at))
    if citations := list_at(message, "citations", place):
        texts = [k for k, part in enumerate(parts) if isinstance(part, Text) and raw_block(part, NAMESPACE) is None]
        at_part = texts[0] if texts else 0
        if not parts:
            parts.append(Text(""))
        cited = parts[at_part]
        options = {**(cited.options or {}), NAMESPACE: {**own(cited.options, NAMESPACE), "citations": citations}}
        parts[at_part] = msgspec.structs.replace(cited, options=options)
    return tuple(parts)


def _decode_call(call: Mapping[str, Any], place: str) -> ToolCall:
    function = object_in(call.get("function"), f"{place}.function")
    arguments, is_raw = function.get("arguments"), False
    if arguments == "":
        arguments = None
    if isinstance(arguments, str):
        try:
            arguments = msgspec.json.decode(arguments)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            is_raw = True
    values = {"rawArguments": is_raw, "callExtra": extra_keys(call, "id", "type", "function")}
    name = text_at(function, "name", f"{place}.function")
    # A call without arguments says `null`, or nothing at all.
    arguments = {} if arguments is None else arguments
    return ToolCall(text_at(call, "id", place), name, arguments, options=namespaced(NAMESPACE, values))


def _decode_result(message: Mapping[str, Any], place: str, calls: Mapping[str, ToolCall]) -> ToolResult:
    call_id = text_at(message, "tool_call_id", place)
    content = message.get("content")
    if isinstance(content, list) and len(content) == 1 and is_plain_text(content[0]):
        content = content[0]["text"]
    if content is None or isinstance(content, str):
        output = Output("text", content or "")
    else:
        blocks = enumerate(list_at(message, "content", place))
        output = Output("content", [_decode_item(object_in(item, f"{place}.content[{k}]")) for k, item in blocks])
    call = calls.get(call_id)
    options = namespaced(NAMESPACE, {"resultExtra": extra_keys(message, "role", "tool_call_id", "content")})
    return ToolResult(call_id, call.name if call else "", output, call.input if call else UNSET, options)


def _decode_item(item: Mapping[str, Any]) -> dict[str, Any]:
    if is_plain_text(item):
        return {"type": "text", "text": item["text"]}
    return {"type": "text", "text": _visible(item), "providerOptions": {NAMESPACE: {"block": item}}}


def _decode_settings(body: Mapping[str, Any]) -> Settings:
    extra = extra_keys(body, "model", "messages", "max_tokens", "tools", "temperature", "p", "stop_sequences", "stream")
    choice = extra.get("tool_choice")
    if choice in ("REQUIRED", "NONE"):
        del extra["tool_choice"]
    return Settings(
        model_id=scalar_at(body, "model", str) or "",
        max_tokens=scalar_at(body, "max_tokens", int),
        temperature=scalar_at(body, "temperature", int, float),
        top_p=scalar_at(body, "p", int, float),
        stop=tuple(list_at(body, "stop_sequences")),
        tools=tuple(
            _decode_tool(object_in(t, f"tools[{i}]"), f"tools[{i}]") for i, t in enumerate(list_at(body, "tools"))
        ),
        tool_choice=choice.lower() if choice in ("REQUIRED", "NONE") else None,
        extra=extra,
    )


def _decode_tool(tool: Mapping[str, Any], place: str) -> Tool:
    function = object_in(tool.get("function"), f"{place}.function")
    is_plain = not extra_keys(tool, "type", "function")
    is_plain = is_plain and not extra_keys(function, "name", "description", "parameters")
    name = text_at(function, "name", f"{place}.function")
    return Tool(
        name, function.get("description") or "", mapping(function.get("parameters")), None if is_plain else tool
    )


# Replies, streams and errors


def decode_reply(body: Mapping[str, Any], *, provider: str) -> Reply:
    """The parts of an answer, which does not name its model.

    Raises ProviderError for an error that came as an answer, and for what can't be read as one.
    """
    message = body.get("message")
    if not isinstance(message, Mapping):
        if isinstance(message, str):
            raise classify(provider, 200, {}, write_mended(body))
        raise not_an_answer(provider, body, "no message")
    try:
        parts = _decode_assistant(message, "message")
    except InvalidInput as error:
        raise not_an_answer(provider, body, str(error)) from error
    usage = mapping(body.get("usage"))
    tokens = mapping(usage.get("tokens")) or mapping(usage.get("billed_units"))
    return Reply(
        parts,
        _FINISH.get(word_at(body, "finish_reason"), "other"),
        Usage(
            input_tokens=count_at(tokens, "input_tokens"),
            output_tokens=count_at(tokens, "output_tokens"),
            cached_tokens=count_at(usage, "cached_tokens"),
        ),
        word_at(body, "id"),
    )


def decode_stream(pieces: Iterable[bytes], *, provider: str) -> Iterator[Chunk]:
    """The chunks of a streamed answer; it ends with its `message-end`, and nothing behind that is read."""
    reader = ChatReader(lambda body: decode_reply(body, provider=provider), provider)
    return read_stream(pieces, reader, provider=provider)


def decode_error(
    status: int, headers: Mapping[str, str], body: str, *, provider: str, now: datetime | None = None
) -> ProviderError:
    """The error that an answer means; see `classify`."""
    return classify(provider, status, headers, body, now)
