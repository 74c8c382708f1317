"""The Converse protocol of Amazon Bedrock: prompt to body and back, replies, streams, errors.

Faithful both ways: nothing is repaired here, and what the protocol can't say raises. What has no place in a prompt is
kept in options of the namespace `bedrock`, and goes back as it came:

    any part       cachePoint: the marker that stands right behind it
    text           citations, block (a block we don't know)
    reasoning      redactedContent; the signature is kept under `anthropic`, see below
    file           extra (further keys), format, isText, s3Location
    tool call      call: further keys of its block, such as `type` of one that the provider ran
    tool result    result: the same; isError beside content or JSON, isHosted
    message        cachePoint behind all its content, joined, apart (see `_continues`), extra

A stored call and its result share their options: `cacheOnCall` and `cacheOnResult` say whose `cachePoint` it is.

Claude is the only model here that signs its reasoning, and its signatures hold on every platform, so they are kept
where Anthropic's own are: `{"anthropic": {"signature": ...}}`. The turn's stamp says which model it was. Sealed
reasoning (`redactedContent`) comes from other makers too and stays Bedrock's own.

The model stands in the path. System texts stand before all turns; there is no role for tools, so that results and
the user's words behind them are one message.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import UNSET, Struct, UnsetType

from memory.errors import EncodingError, InvalidInput, ProviderError
from memory.messages.halves import read_mended, write_mended
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
    raw_block,
)
from memory.messages.values import JsonObject, as_written, write_json
from memory.providers.bedrock_media import KINDS, NAMESPACE, file_of, media_block
from memory.providers.bedrock_stream import Assembly
from memory.providers.classify import classify
from memory.providers.eventstream import BadFrame, Frame, frame_of, frames
from memory.providers.shared import (
    NOTHING,
    Landed,
    Places,
    Run,
    Wire,
    count_at,
    encode_body,
    extra_keys,
    invalid,
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
from memory.providers.wire import Chunk, Encoded, Finished, Imported, Reply, Settings, Tool, Usage

PROTOCOL = "bedrock-converse"
SIGNED = "anthropic"
"""Namespace of signatures."""

_EVENT_TYPE = re.compile(r"[A-Za-z]{1,100}")
_FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool-calls",
    "guardrail_intervened": "content-filter",
    "content_filtered": "content-filter",
    "malformed_model_output": "error",
    "malformed_tool_use": "error",
    "refusal": "refusal",
    "pause_turn": "pause",
}
# What an exception inside a stream would have been as an answer. One of the model itself may pass, so it has none.
_EXCEPTION_STATUS = {
    "internalserverexception": 500,
    "serviceunavailableexception": 503,
    "throttlingexception": 429,
    "validationexception": 400,
}


class _Text(Struct, frozen=True, gc=False):
    text: str


class _Thought(Struct, frozen=True, gc=False):
    text: str
    signature: str | UnsetType = UNSET


class _ReasoningText(Struct, frozen=True, gc=False):
    reasoningText: _Thought


class _Reasoning(Struct, frozen=True, gc=False):
    reasoningContent: _ReasoningText


class _Use(Struct, frozen=True, gc=False):
    toolUseId: str
    name: str
    input: Any


class _ToolUse(Struct, frozen=True, gc=False):
    toolUse: Wire


class _Json(Struct, frozen=True, gc=False):
    json: Any


class _Result(Struct, frozen=True, gc=False):
    toolUseId: str
    content: list[Wire]
    status: str | UnsetType = UNSET


class _ToolResult(Struct, frozen=True, gc=False):
    toolResult: Wire


class _Message(Struct, frozen=True, gc=False):
    role: str
    content: list[Wire]


# Prompt to body


def encode_request(prompt: Prompt, settings: Settings, *, provider: str) -> Encoded:
    """The request for a prompt. Raises EncodingError naming the place of what Converse can't express."""
    if not settings.model_id:
        raise EncodingError("the path needs a model", place="settings.model_id")
    system: list[Wire] = []
    messages: list[Wire] = []
    landed: list[Landed] = []
    runs: list[Run] = []
    content: list[Wire] = []
    previous: Message | None = None
    after_results = False
    for i, message in enumerate(prompt.messages):
        role = message.role
        options = own(message.options, NAMESPACE) if message.options else NOTHING
        if role == "system":
            if messages:
                raise EncodingError("system messages stand before all others", place=f"messages[{i}]")
            landed.append((i, 0, len(system), "system", -1))
            system.append(_system_block(message, options))
            if marker := options.get("cachePoint"):
                system.append({"cachePoint": marker})
            continue
        # Most messages begin one of their own: what may continue another is parted, marked, or follows results.
        may_continue = message.parted or options or (role != "assistant" and after_results)
        if previous is None or not (may_continue and _continues(message, previous, options)):
            content = []
            said = _Message("assistant" if role == "assistant" else "user", content)
            messages.append(with_extra(said, options.get("extra")) if options else said)
        number, first, start = len(messages) - 1, 0, len(content)
        for j, part in enumerate(message.parts):
            if type(part) is Text and not part.options:
                content.append(_Text(part.text))
                continue
            block = _BLOCKS[type(part)](part, role, i, j)
            marker = _marker(part) if part.options and NAMESPACE in part.options else None
            if block is not None:
                content.append(block)
            if block is None or marker:
                runs.append((i, first, number, start, len(content) - start))
                if block is not None:
                    content.append({"cachePoint": marker})
                first, start = j + 1, len(content)
        runs.append((i, first, number, start, len(content) - start))
        if options and (marker := options.get("cachePoint")):
            content.append({"cachePoint": marker})
        previous, after_results = message, role == "tool"
    body = encode_body(_body(system, messages, settings))
    return Encoded(f"/model/{quote(settings.model_id, safe='')}/converse", body, Places(landed, runs))


def as_stream(encoded: Encoded, *, provider: str) -> Encoded:
    """The same request for a streamed answer: the same body at another path."""
    return Encoded(f"{encoded.path}-stream", encoded.body, encoded.places)


def _continues(message: Message, previous: Message, options: Mapping[str, Any]) -> bool:
    """Whether the message belongs to the wire message of the one before.

    There is no role for tools, and roles must alternate: what follows results is in their message, unless it came out
    of one of its own (`apart`). Results that stood behind words of the user say so (`joined`).
    """
    if message.role == "assistant":
        return message.parted and previous.role == "assistant"
    if previous.role == "tool":
        return options.get("apart") is not True
    return previous.role == "user" and message.role == "tool" and options.get("joined") is True


def _body(system: list[Wire], messages: list[Wire], settings: Settings) -> dict[str, Any]:
    body: dict[str, Any] = {"messages": messages}
    if system:
        body["system"] = system
    extra = dict(settings.extra)
    inference: dict[str, Any] = {}
    if settings.max_tokens is not None:
        inference["maxTokens"] = settings.max_tokens
    if settings.temperature is not None:
        inference["temperature"] = settings.temperature
    if settings.top_p is not None:
        inference["topP"] = settings.top_p
    if settings.stop:
        inference["stopSequences"] = settings.stop
    tools: dict[str, Any] = {}
    if settings.tools:
        tools["tools"] = [_tool(tool, f"tools[{i}]") for i, tool in enumerate(settings.tools)]
    if settings.tool_choice is not None:
        if not settings.tools:
            raise EncodingError("there are no tools to choose from", place="settings.tool_choice")
        tools["toolChoice"] = _tool_choice(settings.tool_choice)
    for name, known in (("inferenceConfig", inference), ("toolConfig", tools)):
        further = extra.pop(name, None)
        if known or further:
            body[name] = _with_further(known, further, f"settings.extra.{name}")
    for key, value in extra.items():
        if key in body or key == "system":
            raise EncodingError("is set already and can't be a further key", place=f"settings.extra.{key}")
        if key != "stream":
            body[key] = value
    return body


def _with_further(known: dict[str, Any], further: Any, place: str) -> dict[str, Any]:
    if further is None:
        return known
    if not isinstance(further, Mapping):
        raise EncodingError("must be an object", place=place)
    if twice := known.keys() & further.keys():
        raise EncodingError("is set already and can't be a further key", place=f"{place}.{min(twice)}")
    return {**known, **further}


def _tool(tool: Tool, place: str) -> dict[str, Any]:
    raw = mapping(tool.raw)
    spec = mapping(raw.get("toolSpec"))
    if not tool.name:
        if len(raw) != 1 or "type" in raw:
            raise EncodingError("a tool that another provider runs", place=place)
        return dict(raw)
    # The fields win over the raw form: a pass may have renamed the tool.
    out: dict[str, Any] = {**spec, "name": tool.name}
    if tool.description:
        out["description"] = tool.description
    out["inputSchema"] = {"json": tool.parameters or {"type": "object", "properties": {}}}
    return {"toolSpec": out}


def _tool_choice(choice: str | Mapping[str, Any]) -> dict[str, Any]:
    match choice:
        case "auto":
            return {"auto": {}}
        case "required":
            return {"any": {}}
        case {"type": "tool", "toolName": str() as name}:
            return {"tool": {"name": name}}
        case "none":
            raise EncodingError("there is no way to forbid tools that are declared", place="settings.tool_choice")
    raise EncodingError(f"unknown choice {choice!r}", place="settings.tool_choice")


def _system_block(message: Message, options: Mapping[str, Any]) -> Wire:
    if isinstance(block := options.get("block"), Mapping):
        return dict(block)
    return _Text(message.text)


def _marker(part: Part) -> Any:
    """The cache marker behind a part; of a call or a result, unless it is said to belong to the other one."""
    options = own(part.options, NAMESPACE)
    mine, others = "cacheOnCall", "cacheOnResult"
    if isinstance(part, ToolResult):
        mine, others = others, mine
    if isinstance(part, ToolCall | ToolResult) and options.get(others) and not options.get(mine):
        return None
    return options.get("cachePoint")


def _text(part: Text, role: str, i: int, j: int) -> Wire | None:
    """The block of a text; None for one that only another protocol's namespace could say and that has no text."""
    if not part.options or (part.text and NAMESPACE not in part.options):
        return _Text(part.text)
    if (block := raw_block(part, NAMESPACE)) is not None:
        return dict(block)
    if not part.text and holds_raw_block(part):
        return None
    if (citations := own(part.options, NAMESPACE).get("citations")) is not None:
        return {"citationsContent": {"content": [_Text(part.text)], "citations": citations}}
    return _Text(part.text)


def _call(part: ToolCall, role: str, i: int, j: int) -> Wire:
    if role != "assistant":
        raise refuse(part, role, f"messages[{i}].content[{j}]")
    if not part.options and not part.provider_executed:
        return _ToolUse(_Use(part.id, part.name, as_written(part.input)))
    further = mapping(own(part.options, NAMESPACE).get("call"))
    if part.provider_executed and "type" not in further:
        raise EncodingError("a call that another provider ran itself", place=f"messages[{i}].content[{j}]")
    return _ToolUse(with_extra(_Use(part.id, part.name, part.input), further))


def _result(part: ToolResult, role: str, i: int, j: int) -> Wire:
    output = part.output
    if not part.options and role != "assistant" and type(output.value) is JsonObject and output.type == "json":
        return _ToolResult(_Result(part.call_id, [_Json(output.value.raw)]))
    options = own(part.options, NAMESPACE) if part.options else NOTHING
    if role == "assistant" and options.get("isHosted") is not True:
        place = f"messages[{i}].content[{j}]"
        raise EncodingError("a result that another provider's tool gave has no block here", place=place)
    content: list[Wire]
    match output.value:
        case list() as items if output.type == "content":
            content = [made for k, item in enumerate(items) if (made := _item(item, i, j, k)) is not None]
        case str() as text if output.type.endswith("text"):
            content = [_Text(text)]
        case Mapping() as value if output.type == "json":
            content = [_Json(value)]
        case value:
            # Converse takes only objects as JSON, and an error is told in words.
            content = [_Text(write_json(value))]
    status: str | UnsetType = UNSET
    if output.is_error or options.get("isError") is True:
        status = "error"
    return _ToolResult(with_extra(_Result(part.call_id, content, status), options.get("result")))


def _item(item: Mapping[str, Any], i: int, j: int, k: int) -> Wire | None:
    place = f"messages[{i}].content[{j}]"
    options = mapping(item.get("providerOptions"))
    mine = own(options, NAMESPACE)
    if isinstance(block := mine.get("block"), Mapping):
        return dict(block)
    match item:
        case {"type": "text", "text": str() as text}:
            return _Text(text) if text or not options else None
        case {"type": "media", "data": str() as data, "mediaType": str() as media_type}:
            name = item.get("filename")
            filename = name if isinstance(name, str) else None
            return media_block(media_type, data, filename, place, mine, unnamed=f"document {i}-{j}-{k}")
    raise EncodingError(f"a result can't hold {item.get('type')!r}", place=place)


def _reasoning(part: Reasoning, role: str, i: int, j: int) -> Wire:
    if role != "assistant":
        raise refuse(part, role, f"messages[{i}].content[{j}]")
    if not part.options:
        return _Reasoning(_ReasoningText(_Thought(part.text)))
    mine, signed = own(part.options, NAMESPACE), own(part.options, SIGNED)
    if isinstance(sealed := mine.get("redactedContent"), str):
        return {"reasoningContent": {"redactedContent": sealed}}
    if isinstance(sealed := signed.get("redactedData"), str):
        # Converse carries the bytes of what Anthropic writes as text.
        return {"reasoningContent": {"redactedContent": base64.b64encode(sealed.encode()).decode()}}
    signature = signed.get("signature")
    return _Reasoning(_ReasoningText(_Thought(part.text, signature if isinstance(signature, str) else UNSET)))


def _file(part: File, role: str, i: int, j: int) -> Wire:
    place = f"messages[{i}].content[{j}]"
    if role == "tool":
        raise refuse(part, role, place)
    options = own(part.options, NAMESPACE) if part.options else NOTHING
    return media_block(part.media_type, part.data, part.filename, place, options, unnamed=f"document {i}-{j}")


_BLOCKS: dict[type[Part], Callable[..., Wire | None]] = {
    Text: _text,
    Reasoning: _reasoning,
    File: _file,
    ToolCall: _call,
    ToolResult: _result,
}


# Body to prompt

_Calls = dict[str, tuple[str, Any]]
"""Names and arguments of the calls read so far; a result belongs to the nearest earlier call of its id."""


def decode_request(body: Mapping[str, Any], *, provider: str) -> Imported:
    """The prompt and settings of a request body. Raises InvalidInput naming the place of what does not fit.

    The model is in the path of a request, so it is known only where the body repeats it (`modelId`).
    """
    messages = _decode_system(list_at(body, "system"))
    calls: _Calls = {}
    for i, item in enumerate(list_at(body, "messages")):
        place = f"messages[{i}]"
        message = object_in(item, place)
        made = _decode_message(message, place, calls)
        if made[0].role != "assistant" and messages and messages[-1].role == "tool":
            made[0] = _apart(made[0])
        messages.extend(made)
    return Imported(Prompt(tuple(messages)), _decode_settings(body))


def _apart(message: Message) -> Message:
    return Message(message.role, message.content, {NAMESPACE: {**own(message.options, NAMESPACE), "apart": True}})


def _decode_system(blocks: list[Any]) -> list[Message]:
    out: list[Message] = []
    for i, item in enumerate(blocks):
        block = object_in(item, f"system[{i}]")
        marker = _cache_point(block)
        if marker and out and not own(out[-1].options, NAMESPACE).get("cachePoint"):
            last = out[-1]
            options = {**own(last.options, NAMESPACE), "cachePoint": marker}
            out[-1] = Message("system", last.content, {NAMESPACE: options})
        elif block.keys() == {"text"}:
            out.append(Message("system", text_at(block, "text", f"system[{i}]")))
        else:
            out.append(Message("system", _visible(block), {NAMESPACE: {"block": block}}))
    return out


def _cache_point(block: Mapping[str, Any]) -> Mapping[str, Any] | None:
    marker = block.get("cachePoint")
    return marker if len(block) == 1 and isinstance(marker, Mapping) and marker else None


def _decode_message(message: Mapping[str, Any], place: str, calls: _Calls) -> list[Message]:
    role = message.get("role")
    if role not in ("user", "assistant"):
        raise invalid(f"{place}.role", "user or assistant", role)
    extra = extra_keys(message, "role", "content")
    blocks = _blocks(message, place)
    if role == "assistant":
        return [Message("assistant", _decode_answer(blocks, calls), namespaced(NAMESPACE, {"extra": extra}))]
    runs: list[tuple[bool, list[tuple[Mapping[str, Any], str]]]] = []
    for block, at in blocks:
        is_result = "toolResult" in block
        # A marker stays with what it stands behind.
        is_behind = runs and _cache_point(block) and not _cache_point(runs[-1][1][-1][0])
        if not is_behind and (not runs or runs[-1][0] != is_result):
            runs.append((is_result, []))
        runs[-1][1].append((block, at))
    out: list[Message] = []
    for is_result, run in runs or [(False, [])]:
        options = namespaced(NAMESPACE, {"extra": extra, "joined": is_result and bool(out)})
        out.append(Message("tool" if is_result else "user", tuple(_decode_content(run, calls)), options))
    return out


def _blocks(message: Mapping[str, Any], place: str) -> list[tuple[Mapping[str, Any], str]]:
    """The content blocks of a message, each with its place."""
    places = ((block, f"{place}.content[{j}]") for j, block in enumerate(list_at(message, "content", place)))
    return [(object_in(block, at), at) for block, at in places]


def _decode_answer(blocks: Iterable[tuple[Mapping[str, Any], str]], calls: _Calls) -> tuple[Part, ...]:
    """The parts of an assistant's turn; a result there is that of a tool the provider runs itself."""
    return tuple(_hosted(part) if isinstance(part, ToolResult) else part for part in _decode_content(blocks, calls))


def _hosted(result: ToolResult) -> ToolResult:
    values = {**own(result.options, NAMESPACE), "isHosted": True}
    return msgspec.structs.replace(result, options={**(result.options or {}), NAMESPACE: values})


def _decode_content(blocks: Iterable[tuple[Mapping[str, Any], str]], calls: _Calls) -> list[Part]:
    parts: list[Part] = []
    for block, place in blocks:
        marker = _cache_point(block)
        if marker and parts and (marked := _marked(parts[-1], marker)) is not None:
            parts[-1] = marked
            continue
        parts.append(_decode_block(block, place, calls))
    return parts


def _marked(part: Part, marker: Mapping[str, Any]) -> Part | None:
    """The part with the cache marker behind it; None when it has one or is a block by itself."""
    options = own(part.options, NAMESPACE)
    if "cachePoint" in options or "block" in options:
        return None
    whose = {ToolCall: "cacheOnCall", ToolResult: "cacheOnResult"}.get(type(part))
    values = {**options, "cachePoint": marker, **({whose: True} if whose else {})}
    return msgspec.structs.replace(part, options={**(part.options or {}), NAMESPACE: values})


def _decode_block(block: Mapping[str, Any], place: str, calls: _Calls) -> Part:
    # Some replies name the kind of a block once more; a request never does.
    kinds = block.keys() - {"type"}
    kind = next(iter(kinds)) if len(kinds) == 1 else ""
    value = block.get(kind)
    part: Part | None = None
    match kind, value:
        case "text", str():
            part = Text(value)
        case "toolUse", Mapping():
            part = _decode_call(value, f"{place}.toolUse", calls)
        case "toolResult", Mapping():
            part = _decode_result(value, f"{place}.toolResult", calls)
        case "reasoningContent", Mapping():
            part = _decode_reasoning(value)
        case "citationsContent", Mapping():
            part = _decode_cited(value)
        case (("image" | "document" | "video" | "audio"), _):
            part = file_of(kind, value)
    return part if part is not None else Text(_visible(block), {NAMESPACE: {"block": block}})


def _decode_cited(value: Mapping[str, Any]) -> Text | None:
    match value:
        case {"content": [{"text": str() as text} as only], "citations": list() as citations}:
            if len(only) == 1 and len(value) == 2:
                return Text(text, {NAMESPACE: {"citations": citations}})
    return None


def _visible(block: Mapping[str, Any]) -> str:
    """What others may read of a block we don't know."""
    match block:
        case {"text": str() as text} | {"guardContent": {"text": {"text": str() as text}}}:
            return text
        case {"citationsContent": {"content": list() as items}} | {"searchResult": {"content": list() as items}}:
            return "".join(word_at(mapping(item), "text") for item in items)
        case {"json": value}:
            return write_mended(value)
        case {"document": {"source": {"text": str() as text}}}:
            return text
    return ""


def _decode_call(use: Mapping[str, Any], place: str, calls: _Calls) -> ToolCall:
    further = extra_keys(use, "toolUseId", "name", "input")
    if further.get("type") == "tool_use":  # what every call is that says nothing
        del further["type"]
    hosted = True if "type" in further else None
    call_id, name, arguments = text_at(use, "toolUseId", place), text_at(use, "name", place), use.get("input", {})
    calls[call_id] = (name, arguments)
    return ToolCall(call_id, name, arguments, hosted, options=namespaced(NAMESPACE, {"call": further}))


def _decode_result(result: Mapping[str, Any], place: str, calls: _Calls) -> ToolResult:
    call_id, status = text_at(result, "toolUseId", place), result.get("status")
    further = extra_keys(result, "toolUseId", "content", "status")
    if status not in (None, "success", "error"):
        further["status"] = status
    is_error = status == "error"
    output = _decode_output(list_at(result, "content", place), place, is_error)
    values = {
        "result": further,
        "isError": is_error and not output.is_error,
    }
    name, arguments = calls.get(call_id) or ("", UNSET)
    return ToolResult(call_id, name, output, arguments, namespaced(NAMESPACE, values))


def _decode_output(content: list[Any], place: str, is_error: bool) -> Output:
    match content:
        case [{"text": str() as text} as only] if len(only) == 1:
            return Output("error-text" if is_error else "text", text)
        case [{"json": Mapping() as value} as only] if len(only) == 1:
            return Output("json", value)
    items = [_decode_item(object_in(item, f"{place}.content[{k}]")) for k, item in enumerate(content)]
    return Output("content", items)


def _decode_item(item: Mapping[str, Any]) -> dict[str, Any]:
    kind = next(iter(item)) if len(item) == 1 else ""
    if kind == "text" and isinstance(item["text"], str):
        return {"type": "text", "text": item["text"]}
    if kind in KINDS and (file := file_of(kind, item[kind])) is not None:
        out = {"type": "media", "data": file.data, "mediaType": file.media_type}
        if file.filename is not None:
            out["filename"] = file.filename
        return {**out, "providerOptions": file.options} if file.options else out
    return {"type": "text", "text": _visible(item), "providerOptions": {NAMESPACE: {"block": item}}}


def _decode_reasoning(value: Mapping[str, Any]) -> Reasoning | None:
    match value:
        case {"reasoningText": Mapping() as thought} if len(value) == 1 and thought.keys() <= {"text", "signature"}:
            text, signature = thought.get("text") or "", thought.get("signature")
            if isinstance(text, str) and isinstance(signature, str | None):
                # The namespace alone, also an empty one, says who wrote the block.
                options: Options = {NAMESPACE: {}} if signature is None else {SIGNED: {"signature": signature}}
                return Reasoning(text, options)
        case {"redactedContent": str() as sealed} if len(value) == 1:
            return Reasoning("", {NAMESPACE: {"redactedContent": sealed}})
    return None


def _decode_settings(body: Mapping[str, Any]) -> Settings:
    inference, tools = mapping(body.get("inferenceConfig")), mapping(body.get("toolConfig"))
    extra = extra_keys(body, "modelId", "messages", "system", "inferenceConfig", "toolConfig")
    choice = _decode_choice(tools.get("toolChoice"))
    further = {
        "inferenceConfig": extra_keys(inference, "maxTokens", "temperature", "topP", "stopSequences"),
        "toolConfig": extra_keys(tools, "tools", *(() if choice is None else ("toolChoice",))),
    }
    declared = enumerate(list_at(tools, "tools", "toolConfig"))
    return Settings(
        model_id=scalar_at(body, "modelId", str) or "",
        max_tokens=scalar_at(inference, "maxTokens", int),
        temperature=scalar_at(inference, "temperature", int, float),
        top_p=scalar_at(inference, "topP", int, float),
        stop=tuple(list_at(inference, "stopSequences", "inferenceConfig")),
        tools=tuple(_decode_tool(object_in(tool, f"toolConfig.tools[{i}]")) for i, tool in declared),
        tool_choice=choice,
        extra={**extra, **{name: value for name, value in further.items() if value}},
    )


def _decode_choice(choice: Any) -> str | dict[str, Any] | None:
    if choice in ({"auto": {}}, {"any": {}}):
        return "auto" if "auto" in choice else "required"
    match choice:
        case {"tool": {"name": str() as name} as named} if len(choice) == len(named) == 1:
            return {"type": "tool", "toolName": name}
    return None


def _decode_tool(tool: Mapping[str, Any]) -> Tool:
    match tool:
        case {"toolSpec": {"name": str() as name, "inputSchema": {"json": Mapping() as schema} as holder} as spec}:
            if len(tool) == len(holder) == 1:
                is_plain = not extra_keys(spec, "name", "description", "inputSchema")
                return Tool(name, spec.get("description") or "", schema, None if is_plain else tool)
    return Tool("", raw=tool)


# Replies and errors


def decode_reply(body: Mapping[str, Any], *, provider: str) -> Reply:
    """The parts of an answer, which names neither itself nor its model. Input tokens count those of the cache.

    Raises ProviderError for an error that came as an answer, and for what can't be read as one.
    """
    message = mapping(body.get("output")).get("message")
    if not isinstance(message, Mapping):
        code = body.get("__type") or mapping(body.get("Output")).get("__type")
        if code or body.get("message"):
            raise classify(provider, 200, {}, write_mended({"__type": code, **body}))
        raise not_an_answer(provider, body, "no message")
    try:
        # A reply may open a text and put nothing in it, which no request may hold.
        parts = tuple(part for part in _decode_answer(_blocks(message, "message"), {}) if part != Text(""))
    except InvalidInput as error:
        raise not_an_answer(provider, body, str(error)) from error
    usage = mapping(body.get("usage"))
    cached = count_at(usage, "cacheReadInputTokens")
    return Reply(
        parts,
        _FINISH.get(word_at(body, "stopReason"), "other"),
        Usage(
            input_tokens=count_at(usage, "inputTokens") + cached + count_at(usage, "cacheWriteInputTokens"),
            output_tokens=count_at(usage, "outputTokens"),
            cached_tokens=cached,
        ),
    )


def decode_stream(pieces: Iterable[bytes], *, provider: str) -> Iterator[Chunk]:
    """Typed chunks as they come, whatever the chunking; the last one is `Finished`.

    Raises ProviderError for an error inside the stream, for bytes that are no frames and for a stream that ends before
    the model said why it stopped; `partial` is what came before.
    """
    assembly = Assembly()
    try:
        for frame in frames(pieces):
            if frame.text(":message-type") in ("exception", "error"):
                raise _stream_error(frame, provider)
            delta = assembly.take(frame.text(":event-type"), _payload(frame))
            if delta is not None:
                yield delta
            if assembly.has_ended:
                break
        if not assembly.is_whole:
            raise ProviderError(
                f"{provider}: the stream ended before the answer was complete",
                error_class="transient",
                is_retryable=True,
                error_code="stream_ended_early",
            )
        reply = decode_reply(assembly.body(), provider=provider)
    except ValueError as error:
        message = f"{provider}: a stream that can't be read: {error}"
        broken = ProviderError(message, status=200, error_class="transient", is_retryable=True)
        broken.partial = _partial(assembly, provider)
        raise broken from error
    except ProviderError as error:
        error.partial = _partial(assembly, provider)
        raise
    yield Finished(reply)


def stream_of(events: Iterable[Mapping[str, Any]]) -> bytes:
    """The bytes of a stream of events as AWS' own clients give them: each under its type, `{"messageStop": {…}}`.

    Raises InvalidInput for one in another form.
    """
    out = []
    for event in events:
        name, payload = next(iter(event.items()), ("", None))
        if len(event) != 1 or not isinstance(payload, Mapping) or not _EVENT_TYPE.fullmatch(name):
            raise InvalidInput('expected each event under its type, as in {"messageStop": {…}}', field="events")
        kind = "exception" if name.endswith("Exception") else "event"
        out.append(frame_of({":message-type": kind, f":{kind}-type": name}, write_mended(payload).encode()))
    return b"".join(out)


def _payload(frame: Frame) -> Mapping[str, Any]:
    if not frame.payload:
        return {}
    try:
        value = read_mended(frame.payload)
    except InvalidInput as error:
        raise BadFrame(f"an event that is no JSON: {error}") from error
    if not isinstance(value, Mapping):
        raise BadFrame("an event that is no object")
    return value


def _stream_error(frame: Frame, provider: str) -> ProviderError:
    """The error of a frame: an exception the service models, or one it does not (`error`)."""
    code = frame.text(":exception-type") or frame.text(":error-code")
    said = frame.payload.decode("utf-8", "replace")
    status = _EXCEPTION_STATUS.get(code.lower(), 200)
    if message := frame.text(":error-message"):
        said = write_mended({"message": message})
    return _classified(code, status, {}, said, provider, None)


def _partial(assembly: Assembly, provider: str) -> Reply | None:
    """What came so far, without calls whose arguments are not complete."""
    try:
        reply = decode_reply(assembly.body(is_broken=True), provider=provider)
    except (ValueError, ProviderError):
        return None
    return msgspec.structs.replace(reply, finish_reason="error") if reply.parts else None


def decode_error(
    status: int, headers: Mapping[str, str], body: str, *, provider: str, now: datetime | None = None
) -> ProviderError:
    """The error that an answer means; see `classify`. Its kind stands in the body (`__type`) or in a header."""
    kind = next((value for name, value in headers.items() if name.lower() == "x-amzn-errortype"), "")
    return _classified(kind.partition(":")[0], status, headers, body, provider, now)


def _classified(
    kind: str, status: int, headers: Mapping[str, str], body: str, provider: str, now: datetime | None
) -> ProviderError:
    value = _object(body)
    if not kind or value is None or "__type" in value:
        return classify(provider, status, headers, body, now)
    error = classify(provider, status, headers, write_mended({"__type": kind, **value}), now)
    error.response_body, error.data = body, value
    return error


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = read_mended(text)
    except InvalidInput:
        return None
    return value if isinstance(value, dict) else None
