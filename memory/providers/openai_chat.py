"""The OpenAI Chat Completions protocol, as OpenAI and the many hosts of its format speak it.

Faithful both ways: nothing is repaired here, and what the protocol can't say raises. What has no place in a prompt is
kept in options of the namespace `openai`, and goes back as it came:

    any part       extra (further keys of its content part)
    text           refusal: the text is the message's refusal
    tool call      rawArguments (the input is a text that is no JSON), custom (a call with free text), callExtra
    tool result    resultExtra
    message        role: system or developer, joined (same wire message as the system text before it), extra

Reasoning has no fixed key: the provider's entry names it, and a part keeps another name under its provider's id
(`{"cerebras": {"field": "reasoning", "extra": {...}}}`), as a content part that we don't know is kept (`block`): one
host's extension says nothing to another. Where the entry names none, reasoning is not sent. Not sent back either:
annotations of an answer, which are kept as options of its text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from memory.errors import EncodingError, InvalidInput, ProviderError
from memory.hosts import LIST_ROLES
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
from memory.messages.values import JsonObject, write_json
from memory.providers.classify import classify
from memory.providers.entries import ProviderEntry, entry_for
from memory.providers.openai_chat_stream import CompletionReader
from memory.providers.shared import (
    NOTHING,
    Landed,
    Places,
    Wire,
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

PROTOCOL = "openai-chat"
NAMESPACE = "openai"

_REASONING_FIELDS = ("reasoning_content", "reasoning")
_AUDIO_FORMATS = {"audio/mpeg": "mp3", "audio/mp3": "mp3", "audio/wav": "wav", "audio/x-wav": "wav"}
_AUDIO_TYPES = {"mp3": "audio/mpeg", "wav": "audio/wav"}
_FINISH = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool-calls",
    "function_call": "tool-calls",
    "content_filter": "content-filter",
    "error": "error",
}


class _Text(Struct, frozen=True, gc=False, tag="text"):
    text: str


class _Url(Struct, frozen=True, gc=False):
    url: str


class _Image(Struct, frozen=True, gc=False, tag="image_url"):
    image_url: Wire


class _AudioData(Struct, frozen=True, gc=False):
    data: str
    format: str


class _Audio(Struct, frozen=True, gc=False, tag="input_audio"):
    input_audio: Wire


class _FileData(Struct, frozen=True, gc=False):
    file_data: str
    filename: str | UnsetType = UNSET


class _File(Struct, frozen=True, gc=False, tag="file"):
    file: Wire


class _Function(Struct, frozen=True, gc=False):
    name: str
    arguments: str


class _Call(Struct, frozen=True, gc=False, tag="function"):
    id: str
    function: _Function


class _FreeText(Struct, frozen=True, gc=False):
    name: str
    input: str


class _CustomCall(Struct, frozen=True, gc=False, tag="custom"):
    id: str
    custom: _FreeText


class _Message(Struct, frozen=True, gc=False):
    role: str
    content: str | list[Wire] | None


class _Assistant(Struct, frozen=True, gc=False):
    role: str
    content: str | list[Wire] | None
    refusal: str | UnsetType = UNSET
    reasoning: str | UnsetType = UNSET
    reasoning_content: str | UnsetType = UNSET
    tool_calls: list[Wire] | UnsetType = UNSET


class _ToolMessage(Struct, frozen=True, gc=False):
    role: str
    tool_call_id: str
    content: str | list[Wire]


# Prompt to body


def encode_request(prompt: Prompt, settings: Settings, *, provider: str) -> Encoded:
    """The request for a prompt. Raises EncodingError naming the place of what chat messages can't express."""
    entry = entry_for(provider)
    prompt = _as_own(prompt, provider)
    messages: list[Wire] = []
    landed: list[Landed] = []
    for i, message in enumerate(prompt.messages):
        role, number = message.role, len(messages)
        if role == "tool":
            for j, part in enumerate(message.parts):
                if not isinstance(part, ToolResult):
                    raise refuse(part, "tool", f"messages[{i}].content[{j}]")
                landed.append((i, j, len(messages), "", -1))
                messages.append(_tool_message(part, entry, i, j))
            continue
        if role != "system" and not message.options and (text := lone_text(message)) is not None:
            landed.append((i, 0, number, "content", -1))
            messages.append(_Message(role, text))
            continue
        options = own(message.options, NAMESPACE) if message.options else NOTHING
        if role == "assistant":
            messages.append(_assistant(message, options, entry, i, number, landed))
        elif role == "user":
            content = _user_content(message, entry, i, number, landed)
            said = _Message(str(options["role"]) if options.get("role") in ("system", "developer") else "user", content)
            messages.append(with_extra(said, options.get("extra")) if options else said)
        else:
            if options.get("joined") is True and i and prompt.messages[i - 1].role == "system":
                messages[-1] = _joined(messages[-1], message, options)
            else:
                messages.append(_system(message, options))
            landed.append((i, 0, len(messages) - 1, "", -1))
    if entry.list_roles != LIST_ROLES:
        _join_texts(messages, landed, entry)
    return Encoded("/chat/completions", encode_body(_body(messages, settings, entry)), Places(landed))


def _join_texts(messages: list[Wire], landed: list[Landed], entry: ProviderEntry) -> None:
    """One text for each list of texts in a message whose role may not hold a list, and the places after it."""
    joined: set[int] = set()
    for number, message in enumerate(messages):
        role, content = _at(message, "role"), _at(message, "content")
        role = "system" if role == "developer" else role
        if role in entry.list_roles or not isinstance(content, list):
            continue
        texts = [block.text for block in content if isinstance(block, _Text)]
        if len(texts) == len(content):
            joined.add(number)
            text = "\n".join(texts)
            messages[number] = (
                {**message, "content": text}
                if isinstance(message, dict)
                else msgspec.structs.replace(message, content=text)
            )
    for at, (i, j, number, key, _) in enumerate(landed):
        if number in joined and key == "content":
            landed[at] = (i, j, number, key, -1)


def _at(message: Wire, key: str) -> Any:
    return message.get(key) if isinstance(message, dict) else getattr(message, key, None)


# What one host writes beyond the common protocol is not known to another: its options stand under its own name.


def _host(provider: str) -> str:
    return NAMESPACE if provider in ("", "openai", "azure") else provider


def _as_own(prompt: Prompt, provider: str) -> Prompt:
    """The prompt with this host's options where the encoder looks for them, and no other host's there."""
    host = _host(provider)
    if host == NAMESPACE:
        return prompt

    def moved(options: Options | None) -> Options | None:
        if options is None or (host not in options and NAMESPACE not in options):
            return options
        rest = {name: value for name, value in options.items() if name != NAMESPACE}
        return {**rest, NAMESPACE: options[host]} if host in options else rest

    return _with_options(prompt, moved)


def _as_hosts(options: Options | None, host: str) -> Options | None:
    if host == NAMESPACE or options is None or NAMESPACE not in options:
        return options
    rest = {name: value for name, value in options.items() if name != NAMESPACE}
    return {**rest, host: {**rest.get(host, {}), **options[NAMESPACE]}}


def _with_options(prompt: Prompt, change: Callable[[Options | None], Options | None]) -> Prompt:
    messages = []
    for message in prompt.messages:
        content = message.content
        if not isinstance(content, str):
            content = tuple(_with_part_options(part, change) for part in content)
        messages.append(replace(message, content=content, options=change(message.options)))
    return Prompt(tuple(messages))


def _with_part_options(part: Part, change: Callable[[Options | None], Options | None]) -> Part:
    if isinstance(part, ToolResult) and part.output.type == "content":
        items = [
            {**item, "providerOptions": change(item["providerOptions"])} if item.get("providerOptions") else item
            for item in part.output.value
        ]
        part = replace(part, output=Output("content", items))
    return replace(part, options=change(part.options)) if part.options else part


def as_stream(encoded: Encoded, *, provider: str) -> Encoded:
    """The same request, asking for a streamed answer and, where the host knows how to be asked, for its usage."""
    usage = b',"stream_options":{"include_usage":true}' if entry_for(provider).stream_options else b""
    return add_keys(encoded, b'"stream":true' + usage)


def _body(messages: list[Wire], settings: Settings, entry: ProviderEntry) -> dict[str, Any]:
    body: dict[str, Any] = {"model": settings.model_id} if settings.model_id else {}
    body["messages"] = messages
    if settings.max_tokens is not None:
        body[entry.max_tokens] = settings.max_tokens
    if settings.tools:
        body["tools"] = [_tool(tool, f"tools[{i}]") for i, tool in enumerate(settings.tools)]
    if settings.tool_choice is not None:
        body["tool_choice"] = _tool_choice(settings.tool_choice)
    if settings.temperature is not None:
        body["temperature"] = settings.temperature
    if settings.top_p is not None:
        body["top_p"] = settings.top_p
    if settings.stop:
        body["stop"] = settings.stop
    for key, value in settings.extra.items():
        if key in body:
            raise EncodingError("is set already and can't be a further key", place=f"settings.extra.{key}")
        if key not in ("stream", "stream_options"):
            body[key] = value
    return body


def _tool(tool: Tool, place: str) -> Mapping[str, Any]:
    raw = tool.raw
    if not tool.name:
        if raw is None or "type" not in raw or "name" in raw:
            raise EncodingError("a tool that another provider runs", place=place)
        return raw
    is_own = raw is not None and isinstance(raw.get("function"), Mapping)
    # The fields win over the raw form: a pass may have renamed the tool.
    function: dict[str, Any] = {**(raw["function"] if raw and is_own else {}), "name": tool.name}
    if tool.description:
        function["description"] = tool.description
    if tool.parameters:
        function["parameters"] = tool.parameters
    return {**(raw if raw and is_own else {}), "type": "function", "function": function}


def _tool_choice(choice: str | Mapping[str, Any]) -> str | dict[str, Any]:
    match choice:
        case "auto" | "none" | "required":
            return str(choice)
        case {"type": "tool", "toolName": str() as name}:
            return {"type": "function", "function": {"name": name}}
    raise EncodingError(f"unknown choice {choice!r}", place="settings.tool_choice")


def _system(message: Message, options: Mapping[str, Any]) -> Wire:
    role = "developer" if options.get("role") == "developer" else "system"
    part = options.get("part")
    content: str | list[Wire] = [with_extra(_Text(message.text), part)] if part else message.text
    return with_extra(_Message(role, content), options.get("extra"))


def _joined(before: Wire, message: Message, options: Mapping[str, Any]) -> Wire:
    """The system message `before` with one more text."""
    old = before["content"] if isinstance(before, dict) else getattr(before, "content", None)
    content = [_Text(old)] if isinstance(old, str) else list(old or ())
    content.append(with_extra(_Text(message.text), options.get("part")))
    if isinstance(before, dict):
        return {**before, "content": content}
    return _Message(getattr(before, "role", "system"), content)


def _user_content(
    message: Message, entry: ProviderEntry, i: int, number: int, landed: list[Landed]
) -> str | list[Wire]:
    content: list[Wire] = []
    landed.append((i, -1, number, "", -1))
    start = len(landed)
    for j, part in enumerate(message.parts):
        if not isinstance(part, Text | File):
            raise refuse(part, "user", f"messages[{i}].content[{j}]")
        if (block := _content_part(part, entry, i, j)) is not None:
            landed.append((i, j, number, "content", len(content)))
            content.append(block)
    if (text := _only_text(content)) is None:
        return content
    landed[start] = (*landed[start][:4], -1)
    return text


def _only_text(content: list[Wire]) -> str | None:
    """The text of a lone plain text part: every host takes a string, and not every one a list."""
    return only.text if len(content) == 1 and isinstance(only := content[0], _Text) else None


def _content_part(part: Text | File, entry: ProviderEntry, i: int, j: int) -> Wire | None:
    """The content part; None for one that only another protocol's namespace could say and that has no text."""
    if isinstance(part, Text) and not part.options:
        return _Text(part.text)
    options = own(part.options, NAMESPACE)
    if isinstance(part, File):
        return _file(part.media_type, part.data, part.filename, f"messages[{i}].content[{j}]", options)
    if (block := raw_block(part, entry.id)) is not None:
        return dict(block)
    if not part.text and holds_raw_block(part):
        return None
    return with_extra(_Text(part.text), options.get("extra"))


def _file(media_type: str, data: str, filename: str | None, place: str, options: Mapping[str, Any]) -> Wire:
    """A file as a content part. `options.inner` are further keys of its inner object, such as an image's detail."""
    media_type, data = bare(media_type, data)
    remote, inner, extra = is_url(data), options.get("inner"), options.get("extra")
    if media_type.startswith("image/"):
        url = data if remote else f"data:{media_type};base64,{data}"
        return with_extra(_Image(with_extra(_Url(url), inner)), extra)
    if remote:
        raise EncodingError(f"a file of type {media_type!r} can't be sent by URL", place=place)
    if media_type.startswith("audio/"):
        audio = _AudioData(data, _AUDIO_FORMATS.get(media_type) or media_type.removeprefix("audio/"))
        return with_extra(_Audio(with_extra(audio, inner)), extra)
    if media_type.startswith("video/"):
        raise EncodingError(f"a file of type {media_type!r} can't be sent", place=place)
    file = _FileData(f"data:{media_type};base64,{data}", UNSET if filename is None else filename)
    return with_extra(_File(with_extra(file, inner)), extra)


def _assistant(
    message: Message, options: Mapping[str, Any], entry: ProviderEntry, i: int, number: int, landed: list[Landed]
) -> Wire:
    landed.append((i, -1, number, "", -1))
    content: list[Wire] = []
    first = 0  # the place of the first text among those landed
    calls: list[Wire] = []
    reasoning: dict[str, list[str]] = {}
    refusal: str | UnsetType = UNSET
    extra: dict[str, Any] = dict(mapping(options.get("extra"))) if options else {}
    for j, part in enumerate(message.parts):
        # By exact type: a class of msgspec's is slow to say that something is none of its own.
        if type(part) is Text:
            if part.options and own(part.options, NAMESPACE).get("refusal") is True:
                landed.append((i, j, number, "refusal", -1))
                refusal = part.text if refusal is UNSET else f"{refusal}\n{part.text}"
            elif (block := _content_part(part, entry, i, j)) is not None:
                first = first if content else len(landed)
                landed.append((i, j, number, "content", len(content)))
                content.append(block)
        elif type(part) is ToolCall:
            if part.provider_executed:
                raise EncodingError("a call that a provider ran itself", place=f"messages[{i}].content[{j}]")
            landed.append((i, j, number, "tool_calls", len(calls)))
            calls.append(_call(part, i, j))
        elif type(part) is Reasoning:
            mine = own(part.options, entry.id) if part.options else NOTHING
            if chunk := mapping(mine.get("block")):
                landed.append((i, j, number, "content", len(content)))
                content.append(dict(chunk))
                continue
            extra |= mapping(mine.get("extra"))
            if field := _reasoning_field(mine, entry):
                landed.append((i, j, number, field, -1))
                reasoning.setdefault(field, []).append(part.text)
        else:
            raise refuse(part, "assistant", f"messages[{i}].content[{j}]")
    said: str | list[Wire] | None = content
    if (text := _only_text(content)) is not None:
        landed[first] = (*landed[first][:4], -1)
        said = text
    elif not content:
        said = None if entry.null_content and (calls or refusal is not UNSET) else ""
    if not reasoning and not extra:
        return _Assistant("assistant", said, refusal, tool_calls=calls or UNSET)
    thoughts = {field: "\n".join(texts) for field, texts in reasoning.items()}
    return with_extra(_Assistant("assistant", said, refusal, tool_calls=calls or UNSET, **thoughts), extra)


def _reasoning_field(mine: Mapping[str, Any], entry: ProviderEntry) -> str:
    field = mine.get("field")
    return field if field in _REASONING_FIELDS else entry.reasoning


def _call(part: ToolCall, i: int, j: int) -> Wire:
    if not part.options and type(part.input) is JsonObject:
        return _Call(part.id, _Function(part.name, part.input.text))
    options = own(part.options, NAMESPACE)
    if options.get("custom") is True and isinstance(part.input, str):
        return with_extra(_CustomCall(part.id, _FreeText(part.name, part.input)), options.get("callExtra"))
    is_raw = options.get("rawArguments") is True and isinstance(part.input, str)
    try:
        arguments = part.input if is_raw else write_json(part.input)
    except (UnicodeError, TypeError, ValueError, RecursionError) as error:
        raise EncodingError(f"arguments that are no JSON: {error}", place=f"messages[{i}].content[{j}]") from error
    call = _Call(part.id, _Function(part.name, arguments))
    return with_extra(call, options.get("callExtra")) if options else call


def _tool_message(part: ToolResult, entry: ProviderEntry, i: int, j: int) -> Wire:
    value = part.output.value
    if not part.options and type(value) is JsonObject:
        return _ToolMessage("tool", part.call_id, value.text)
    content: str | list[Wire]
    if part.output.type == "content":
        place = f"messages[{i}].content[{j}]"
        content = [block for item in value if (block := _result_item(item, entry, place)) is not None]
    elif isinstance(value, str) and part.output.type.endswith("text"):
        content = value
    else:
        content = write_json(value)
    options = own(part.options, NAMESPACE) if part.options else NOTHING
    said = _ToolMessage("tool", part.call_id, content)
    return with_extra(said, options.get("resultExtra")) if options else said


def _result_item(item: Mapping[str, Any], entry: ProviderEntry, place: str) -> Wire | None:
    options = mapping(item.get("providerOptions"))
    if isinstance(block := own(options, entry.id).get("block"), Mapping):
        return dict(block)
    match item:
        case {"type": "text", "text": str() as text}:
            return _Text(text) if text or not options else None
        case {"type": "media", "data": str() as data, "mediaType": str() as media_type}:
            return _file(media_type, data, None, place, NOTHING)
    raise EncodingError(f"a result can't hold {item.get('type')!r}", place=place)


# Body to prompt


def decode_request(body: Mapping[str, Any], *, provider: str) -> Imported:
    """The prompt and settings of a request body. Raises InvalidInput naming the place of what is no chat request.

    Neighbouring `tool` messages become one message with several results.
    """
    messages: list[Message] = []
    calls: dict[str, ToolCall] = {}
    entry = entry_for(provider)
    for i, item in enumerate(list_at(body, "messages")):
        place = f"messages[{i}]"
        message = object_in(item, place)
        match message.get("role"):
            case "system" | "developer" as role:
                leads = all(earlier.role == "system" for earlier in messages)
                messages.extend(_decode_system(message, role, place, entry, leads=leads))
            case "user":
                parts = _decode_content(message.get("content"), f"{place}.content", entry)
                extra = extra_keys(message, "role", "content")
                messages.append(Message("user", parts, namespaced(NAMESPACE, {"extra": extra})))
            case "assistant":
                made = _decode_assistant(message, place, entry)
                calls.update({part.id: part for part in made.parts if isinstance(part, ToolCall)})
                messages.append(made)
            case "tool":
                result = _decode_result(message, place, calls, entry)
                if messages and (last := messages[-1]).role == "tool":
                    messages[-1] = Message("tool", (*last.parts, result))
                else:
                    messages.append(Message("tool", (result,)))
            case role:
                raise invalid(f"{place}.role", "system, developer, user, assistant or tool", role)
    host, prompt = _host(provider), Prompt(tuple(messages))
    if host != NAMESPACE:
        prompt = _with_options(prompt, lambda options: _as_hosts(options, host))
    return Imported(prompt, _decode_settings(body, entry))


def _decode_system(
    message: Mapping[str, Any], role: str, place: str, entry: ProviderEntry, *, leads: bool
) -> list[Message]:
    extra = extra_keys(message, "role", "content")
    if not leads:
        parts = _decode_content(message.get("content"), f"{place}.content", entry)
        return [Message("user", parts, namespaced(NAMESPACE, {"role": role, "extra": extra}))]
    marks = {"role": "developer" if role == "developer" else None}
    content = message.get("content")
    if isinstance(content, str):
        return [Message("system", content, namespaced(NAMESPACE, {**marks, "extra": extra}))]
    out = []
    for j, item in enumerate(list_at(message, "content", place)):
        block = object_in(item, f"{place}.content[{j}]")
        options = {**marks, "part": extra_keys(block, "type", "text"), "joined": j > 0, "extra": {} if j else extra}
        out.append(Message("system", text_at(block, "text", f"{place}.content[{j}]"), namespaced(NAMESPACE, options)))
    return out


def _decode_content(content: Any, place: str, entry: ProviderEntry) -> tuple[Part, ...]:
    if content is None:
        return ()
    if isinstance(content, str):
        return (Text(content),)
    if not isinstance(content, list):
        raise invalid(place, "a text or a list", content)
    return tuple(
        _decode_part(object_in(part, f"{place}[{j}]"), f"{place}[{j}]", entry) for j, part in enumerate(content)
    )


def _decode_part(part: Mapping[str, Any], place: str, entry: ProviderEntry) -> Text | File:
    if part.get("type") == "text":
        text = text_at(part, "text", place)
        return Text(text, namespaced(NAMESPACE, {"extra": extra_keys(part, "type", "text")}) if len(part) > 2 else None)
    return _decode_file(part) or Text(_visible(part), {entry.id: {"block": part}})


def _visible(block: Mapping[str, Any]) -> str:
    """What others may read of a content part we don't know."""
    return next((block[key] for key in ("text", "refusal") if isinstance(block.get(key), str)), "")


def _decode_file(part: Mapping[str, Any]) -> File | None:
    """The file of a content part; None for one that a file part can't hold."""
    kind = part.get("type")
    inner = mapping(part.get(kind)) if isinstance(kind, str) else NOTHING
    filename = None
    match (kind, inner):
        case ("image_url", {"url": str() as data}):
            known = "url"
            media_type, data = bare("image/*", data)
            if not media_type.startswith("image/") or (data.startswith("data:")):
                return None
        case ("input_audio", {"data": str() as data, "format": str() as form}):
            known = "data format"
            media_type = _AUDIO_TYPES.get(form) or f"audio/{form}"
        case ("file", {"file_data": str() as uri}):
            known = "file_data filename"
            media_type, data = bare("", uri)
            filename = inner.get("filename")
            if not media_type or media_type.startswith(("image/", "audio/", "video/")):
                return None
        case _:
            return None
    values = {"inner": extra_keys(inner, *known.split()), "extra": extra_keys(part, "type", str(kind))}
    return File(media_type, data, filename, namespaced(NAMESPACE, values))


def _decode_assistant(message: Mapping[str, Any], place: str, entry: ProviderEntry) -> Message:
    parts = [*_decode_reasoning(message, entry), *_decode_said(message, place, entry)]
    calls = [
        _decode_call(object_in(call, f"{place}.tool_calls[{k}]"), f"{place}.tool_calls[{k}]")
        for k, call in enumerate(list_at(message, "tool_calls", place))
    ]
    extra = extra_keys(message, "role", "content", "refusal", "tool_calls", *_REASONING_FIELDS)
    return Message("assistant", (*parts, *calls), namespaced(NAMESPACE, {"extra": extra}))


def _decode_said(message: Mapping[str, Any], place: str, entry: ProviderEntry) -> list[Part]:
    """Text and refusal of an assistant message. An empty text beside calls means as little as null."""
    content = message.get("content")
    parts: list[Part] = []
    if content or not message.get("tool_calls"):
        for part in _decode_content(content, f"{place}.content", entry):
            block = raw_block(part, entry.id)
            if block is not None and block.get("type") == "thinking":
                parts.append(Reasoning(_thought(block.get("thinking")), {entry.id: {"block": block}}))
            else:
                parts.append(part)
    if isinstance(refusal := message.get("refusal"), str) and refusal:
        parts.append(Text(refusal, {NAMESPACE: {"refusal": True}}))
    return parts


def _thought(value: Any) -> str:
    """The text of a thinking chunk, which is a text or a list of text chunks."""
    if isinstance(value, str):
        return value
    items = value if isinstance(value, list) else ()
    return "".join(str(item.get("text") or "") for item in items if isinstance(item, Mapping))


def _decode_reasoning(message: Mapping[str, Any], entry: ProviderEntry) -> list[Reasoning]:
    for field in _REASONING_FIELDS:
        text = message.get(field)
        if isinstance(text, str):
            return [Reasoning(text, None if field == entry.reasoning else {entry.id: {"field": field}})]
    return []


def _decode_call(call: Mapping[str, Any], place: str) -> ToolCall:
    if call.get("type") == "custom":
        custom = object_in(call.get("custom"), f"{place}.custom")
        values = {"custom": True, "callExtra": extra_keys(call, "id", "type", "custom")}
        text = text_at(custom, "input", f"{place}.custom")
        name = text_at(custom, "name", f"{place}.custom")
        return ToolCall(text_at(call, "id", place), name, text, options=namespaced(NAMESPACE, values))
    function = object_in(call.get("function"), f"{place}.function")
    arguments, is_raw = function.get("arguments"), False
    if isinstance(arguments, str):
        try:
            arguments = msgspec.json.decode(arguments)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            is_raw = True
    values = {"rawArguments": is_raw, "callExtra": extra_keys(call, "id", "type", "function", "index")}
    name = text_at(function, "name", f"{place}.function")
    options = namespaced(NAMESPACE, values)
    return ToolCall(text_at(call, "id", place), name, {} if arguments is None else arguments, options=options)


def _decode_result(
    message: Mapping[str, Any], place: str, calls: Mapping[str, ToolCall], entry: ProviderEntry
) -> ToolResult:
    call_id = text_at(message, "tool_call_id", place)
    content = message.get("content")
    if isinstance(content, list) and len(content) == 1 and is_plain_text(content[0]):
        content = content[0]["text"]
    if isinstance(content, list):
        items = [_decode_item(object_in(item, f"{place}.content[{k}]"), entry) for k, item in enumerate(content)]
        output = Output("content", items)
    elif content is None or isinstance(content, str):
        output = Output("text", content or "")
    else:
        raise invalid(f"{place}.content", "a text or a list", content)
    call = calls.get(call_id)
    name = call.name if call else message.get("name") or ""
    options = namespaced(NAMESPACE, {"resultExtra": extra_keys(message, "role", "tool_call_id", "content")})
    return ToolResult(call_id, name, output, call.input if call else UNSET, options)


def _decode_item(item: Mapping[str, Any], entry: ProviderEntry) -> dict[str, Any]:
    if is_plain_text(item):
        return {"type": "text", "text": item["text"]}
    file = _decode_file(item)
    if file is not None and file.options is None and file.filename is None:
        return {"type": "media", "data": file.data, "mediaType": file.media_type}
    return {"type": "text", "text": _visible(item), "providerOptions": {entry.id: {"block": item}}}


def _decode_settings(body: Mapping[str, Any], entry: ProviderEntry) -> Settings:
    extra = extra_keys(
        body, "model", "messages", entry.max_tokens, "tools", "temperature", "top_p", "stop", "stream", "stream_options"
    )
    choice = _decode_choice(extra.get("tool_choice"))
    if choice is not None:
        del extra["tool_choice"]
    stop = body.get("stop")
    return Settings(
        model_id=scalar_at(body, "model", str) or "",
        max_tokens=scalar_at(body, entry.max_tokens, int),
        temperature=scalar_at(body, "temperature", int, float),
        top_p=scalar_at(body, "top_p", int, float),
        stop=(stop,) if isinstance(stop, str) else tuple(list_at(body, "stop")),
        tools=tuple(_decode_tool(object_in(t, f"tools[{i}]")) for i, t in enumerate(list_at(body, "tools"))),
        tool_choice=choice,
        extra=extra,
    )


def _decode_choice(choice: Any) -> str | dict[str, Any] | None:
    match choice:
        case "auto" | "none" | "required":
            return str(choice)
        case {"type": "function", "function": {"name": str() as name}}:
            return {"type": "tool", "toolName": name}
    return None


def _decode_tool(tool: Mapping[str, Any]) -> Tool:
    function = tool.get("function")
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        return Tool("", raw=tool)
    is_plain = not extra_keys(tool, "type", "function")
    is_plain = is_plain and not extra_keys(function, "name", "description", "parameters")
    parameters = mapping(function.get("parameters"))
    return Tool(function["name"], function.get("description") or "", parameters, None if is_plain else tool)


# Replies and errors


def decode_reply(body: Mapping[str, Any], *, provider: str) -> Reply:
    """The parts of an answer's first choice.

    Raises ProviderError for an error that came as an answer, and for what can't be read as one.
    """
    choices = body.get("choices")
    choice = mapping(choices[0] if isinstance(choices, list) and choices else None)
    message = choice.get("message")
    if not isinstance(message, Mapping) or body.get("error"):
        raise not_an_answer(provider, body, "no message")
    entry = entry_for(provider)
    try:
        calls = [
            _decode_call(object_in(call, f"tool_calls[{k}]"), f"tool_calls[{k}]")
            for k, call in enumerate(list_at(message, "tool_calls"))
        ]
        parts = (*_reply_reasoning(message, entry), *_reply_said(message, entry), *calls)
    except InvalidInput as error:
        raise not_an_answer(provider, body, str(error)) from error
    usage = mapping(body.get("usage"))
    cached = count_at(mapping(usage.get("prompt_tokens_details")), "cached_tokens")
    host = _host(provider)
    return Reply(
        tuple(_with_part_options(part, lambda options: _as_hosts(options, host)) for part in parts),
        _finish_reason(choice, message, has_calls=bool(calls)),
        Usage(
            input_tokens=count_at(usage, "prompt_tokens"),
            output_tokens=count_at(usage, "completion_tokens"),
            cached_tokens=cached or count_at(usage, "prompt_cache_hit_tokens"),
            reasoning_tokens=count_at(mapping(usage.get("completion_tokens_details")), "reasoning_tokens"),
        ),
        word_at(body, "id"),
        word_at(body, "model"),
    )


def _finish_reason(choice: Mapping[str, Any], message: Mapping[str, Any], *, has_calls: bool) -> str:
    """Why the answer ended. Some hosts name no reason, or `stop`, beside calls."""
    reason = _FINISH.get(word_at(choice, "finish_reason"), "other")
    if has_calls and reason in ("other", "stop"):
        return "tool-calls"
    return "refusal" if reason == "stop" and message.get("refusal") else reason


def _reply_reasoning(message: Mapping[str, Any], entry: ProviderEntry) -> list[Reasoning]:
    """Reasoning of an answer; structured details beside it go back to the same provider only."""
    parts = [part for part in _decode_reasoning(message, entry) if part.text]
    if details := message.get("reasoning_details"):
        text = parts[0].text if parts else ""
        return [Reasoning(text, {entry.id: {"extra": {"reasoning_details": details}}})]
    return parts


def _reply_said(message: Mapping[str, Any], entry: ProviderEntry) -> list[Part]:
    """Text of an answer with its annotations; of a spoken one its transcript."""
    parts = [part for part in _decode_said(message, "message", entry) if not (isinstance(part, Text) and not part.text)]
    audio = mapping(message.get("audio"))
    if isinstance(transcript := audio.get("transcript"), str) and transcript and not parts:
        parts = [Text(transcript)]
    options = namespaced(NAMESPACE, {"annotations": message.get("annotations") or None})
    if options and parts and isinstance(parts[0], Text) and parts[0].options is None:
        parts[0] = Text(parts[0].text, options)
    return parts


def decode_stream(pieces: Iterable[bytes], *, provider: str) -> Iterator[Chunk]:
    """The chunks of a streamed answer; it ends with `[DONE]`, and nothing behind that is read."""
    reader = CompletionReader(lambda body: decode_reply(body, provider=provider), provider)
    return read_stream(pieces, reader, provider=provider)


def decode_error(
    status: int, headers: Mapping[str, str], body: str, *, provider: str, now: datetime | None = None
) -> ProviderError:
    """The error that an answer means; see `classify`."""
    return classify(provider, status, headers, body, now)
