"""The Gemini contents protocol, as Google's Gemini API and Vertex AI speak it.

Faithful both ways: nothing is repaired here, and what the protocol can't say raises. Both spellings of a key are read
(`inlineData`, `inline_data`: to the vendor they are one), camelCase is written. What has no place in a prompt is kept
in options of the namespace `google`, and goes back as it came:

    any part       thoughtSignature, thought (of a file: the model's own sketch), extra (further keys), block (a part
                   that we don't know, also a signature that came alone)
    file           inner: further keys of its data
    tool call      withoutId (the id was made here and is never sent), call (further keys of the call itself), type
                   (`toolCall` or `executableCode`: the vendor ran it)
    tool result    resultWithoutId, resultId (where it is not its call's), result, resultPart (further keys)
    message        role (where it is not the usual one), joined (same content as the message before it), apart (results
                   in another content than those before them), extra
    answer         reply: grounding, citations and the like, on its last part; never sent back

Most answers name calls without an id. Theirs are made from the answer's id, so that a thread has no id twice. A
result is a text or value `x` as `{"result": x}`, an error as `{"error": x}`, an object as itself. Provider-run calls
are calls with their result where the two stand together, else blocks. A signature is never changed, not even its
alphabet. Options under `vertex` are read where there are none under `google`: other tools store them so.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import UNSET, Struct, UnsetType

from memory.errors import EncodingError, InvalidInput, ProviderError
from memory.messages.halves import write_mended
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
from memory.messages.values import JsonObject, as_written
from memory.providers.classify import classify
from memory.providers.gemini_stream import AnswerReader
from memory.providers.shared import (
    NOTHING,
    Landed,
    Places,
    Run,
    Wire,
    bare,
    count_at,
    encode_body,
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
from memory.providers.sse import stream_of as stream_of
from memory.providers.streams import read_stream
from memory.providers.wire import Chunk, Encoded, Imported, Reply, Settings, Tool, Usage

PROTOCOL = "gemini-contents"
NAMESPACE = "google"
_NAMESPACES = (NAMESPACE, "vertex")

_FINISH = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "SAFETY": "content-filter",
    "RECITATION": "content-filter",
    "LANGUAGE": "content-filter",
    "BLOCKLIST": "content-filter",
    "PROHIBITED_CONTENT": "content-filter",
    "SPII": "content-filter",
    "MODEL_ARMOR": "content-filter",
    "IMAGE_SAFETY": "content-filter",
    "IMAGE_PROHIBITED_CONTENT": "content-filter",
    "IMAGE_RECITATION": "content-filter",
    "MALFORMED_FUNCTION_CALL": "error",
    "MALFORMED_RESPONSE": "error",
    "UNEXPECTED_TOOL_CALL": "error",
    "TOO_MANY_TOOL_CALLS": "error",
    "MISSING_THOUGHT_SIGNATURE": "error",
}
_PART_KEYS = ("text", "thought", "thoughtSignature")
_RESULT_OF = {"toolCall": "toolResponse", "executableCode": "codeExecutionResult"}
_CODE_TOOL = "code_execution"
_SCHEMA_KEYS = ("parametersJsonSchema", "parameters_json_schema", "parameters")
_TOOLS_OF_OTHERS = ("type", "name", "toolSpec", "systemTool", "cachePoint")
_NOT_KEPT = ("content", "finishReason", "finishMessage", "index", "tokenCount", "avgLogprobs", "logprobsResult")


class _Text(Struct, frozen=True, gc=False):
    text: str
    thought: bool | UnsetType = UNSET
    thoughtSignature: str | UnsetType = UNSET


class _Call(Struct, frozen=True, gc=False):
    name: str
    args: Any
    id: str | UnsetType = UNSET


class _CallPart(Struct, frozen=True, gc=False):
    functionCall: Wire
    thoughtSignature: str | UnsetType = UNSET


class _Response(Struct, frozen=True, gc=False):
    name: str
    response: Any
    id: str | UnsetType = UNSET
    parts: list[Wire] | UnsetType = UNSET


class _ResponsePart(Struct, frozen=True, gc=False):
    functionResponse: Wire


class _Inline(Struct, frozen=True, gc=False):
    mimeType: str
    data: str


class _Remote(Struct, frozen=True, gc=False):
    mimeType: str
    fileUri: str


class _InlinePart(Struct, frozen=True, gc=False):
    inlineData: Wire
    thought: bool | UnsetType = UNSET
    thoughtSignature: str | UnsetType = UNSET


class _RemotePart(Struct, frozen=True, gc=False):
    fileData: Wire
    thought: bool | UnsetType = UNSET
    thoughtSignature: str | UnsetType = UNSET


class _Content(Struct, frozen=True, gc=False):
    role: str
    parts: list[Wire]


# Prompt to body


def encode_request(prompt: Prompt, settings: Settings, *, provider: str) -> Encoded:
    """The request for a prompt, for a whole answer. Raises EncodingError naming the place of what has no part here."""
    system: list[Wire] = []
    contents: list[Wire] = []
    lists: list[list[Wire]] = []
    landed: list[Landed] = []
    runs: list[Run] = []
    unnamed: set[str] = set()  # ids of calls that go without one: their results do too
    previous: Message | None = None
    for i, message in enumerate(prompt.messages):
        role = message.role
        if role == "system":
            if contents:
                raise EncodingError("system messages stand before all others", place=f"messages[{i}]")
            landed.append((i, 0, len(system), "system", -1))
            system.append(_system_part(message))
            continue
        options = _own(message.options) if message.options else NOTHING
        number = len(contents)
        if options or message.parted or role == "tool":
            number -= _back(message, previous, options, number)
        if number == len(contents):
            lists.append([])
            content = _Content("model" if role == "assistant" else "user", lists[-1])
            contents.append(_marked(content, options) if options else content)
        parts = lists[number]
        first, start = 0, len(parts)
        for j, part in enumerate(message.parts):
            if type(part) is Text and not part.options:
                parts.append(_Text(part.text))
            elif (wire := _PARTS[type(part)](part, role, i, j, unnamed)) is not None:
                parts.append(wire)
            else:
                runs.append((i, first, number, start, len(parts) - start))
                first, start = j + 1, len(parts)
        runs.append((i, first, number, start, len(parts) - start))
        previous = message
    body = encode_body(_body(system, _instruction(prompt), contents, settings))
    places = Places(landed, runs, system="/systemInstruction/parts", messages="/contents", content="parts")
    return Encoded(f"{_model_path(settings.model_id)}:generateContent", body, places)


def as_stream(encoded: Encoded, *, provider: str) -> Encoded:
    """The same request for an answer in pieces: only its path says so."""
    path = encoded.path.removesuffix(":generateContent")
    return Encoded(f"{path}:streamGenerateContent?alt=sse", encoded.body, encoded.places)


def _model_path(model_id: str) -> str:
    """Below the base URL: `/models/x`, or the whole name of one that is no plain model (`tunedModels/x`)."""
    name = model_id.removeprefix("/")
    steps = name.split("/")
    if not all(steps) or "." in steps or ".." in steps:
        raise EncodingError("a model is named in the URL, and this is no name", place="settings.model_id")
    return "/" + quote(name if len(steps) > 1 else f"models/{name}")


def _own(options: Options | None) -> Mapping[str, Any]:
    return own(options, NAMESPACE) or own(options, "vertex")


def _back(message: Message, previous: Message | None, options: Mapping[str, Any], count: int) -> int:
    """How many contents back the message belongs; 0: it is a content of its own.

    A message goes into a content that is there where it came out of it; so do neighbouring results, which the vendor
    counts by content. What its own tools did beside calls that wait for results stands behind these results in a
    thread, and goes back before them.
    """
    if previous is None:
        return 0
    if message.parted:
        if previous.role == message.role == "assistant":
            return 1
        begins = message.parts[0] if message.parts else None
        is_beside = previous.role == "tool" and count > 1 and begins is not None and _is_vendors(begins)
        return 2 if is_beside else 0
    if message.role == previous.role == "tool":
        return 0 if options.get("apart") is True else 1
    is_joined = options.get("joined") is True and {message.role, previous.role} == {"user", "tool"}
    return 1 if is_joined else 0


def _is_vendors(part: Part) -> bool:
    if isinstance(part, ToolCall):
        return _own(part.options).get("type") in _RESULT_OF
    return raw_block(part, NAMESPACE) is not None


def _marked(content: _Content, options: Mapping[str, Any]) -> Wire:
    """A content with the role and the further keys that it came with."""
    said: Wire = content
    if "role" in options:
        said = {"parts": content.parts} if options["role"] == "" else _Content(options["role"], content.parts)
    return with_extra(said, options.get("extra"))


def _instruction(prompt: Prompt) -> Mapping[str, Any]:
    """Further keys of the system instruction."""
    first = prompt.messages[0] if prompt.messages else None
    return mapping(_own(first.options).get("instruction")) if first and first.role == "system" else NOTHING


def _body(
    system: list[Wire], instruction: Mapping[str, Any], contents: list[Wire], settings: Settings
) -> dict[str, Any]:
    extra = _camelled(settings.extra)
    body: dict[str, Any] = {"systemInstruction": {"parts": system, **instruction}} if system else {}
    body["contents"] = contents
    if settings.tools:
        body["tools"] = _tools(settings.tools)
    choice = {} if settings.tool_choice is None else {"functionCallingConfig": _tool_choice(settings.tool_choice)}
    if (config := _merged(choice, extra.pop("toolConfig", None), "toolConfig")) is not None:
        body["toolConfig"] = config
    generation = {
        "maxOutputTokens": settings.max_tokens,
        "temperature": settings.temperature,
        "topP": settings.top_p,
        "stopSequences": settings.stop or None,
    }
    given = {key: value for key, value in generation.items() if value is not None}
    if (config := _merged(given, extra.pop("generationConfig", None), "generationConfig")) is not None:
        body["generationConfig"] = config
    for key, value in extra.items():
        if key in body or key == "systemInstruction":
            raise EncodingError("is set already and can't be a further key", place=f"settings.extra.{key}")
        body[key] = value
    return body


def _merged(given: dict[str, Any], further: Any, name: str) -> dict[str, Any] | None:
    """Both as one object, None when there is neither. Raises EncodingError for a key that both have."""
    if further is None:
        return given or None
    if not isinstance(further, Mapping):
        raise EncodingError("is no object", place=f"settings.extra.{name}")
    further = _camelled(further)
    for key in given:
        if key in further:
            raise EncodingError("is set already and can't be a further key", place=f"settings.extra.{name}.{key}")
    return {**given, **further}


def _tools(tools: tuple[Tool, ...]) -> list[Mapping[str, Any]]:
    """One entry for neighbouring functions, one for each tool that Google runs."""
    out: list[Mapping[str, Any]] = []
    functions: list[Mapping[str, Any]] | None = None
    for i, tool in enumerate(tools):
        if tool.name:
            if functions is None:
                functions = []
                out.append({"functionDeclarations": functions})
            functions.append(_declaration(tool))
            continue
        if tool.raw is None or any(key in tool.raw for key in _TOOLS_OF_OTHERS):
            raise EncodingError("a tool that another provider runs", place=f"tools[{i}]")
        out.append(tool.raw)
        functions = None
    return out


def _declaration(tool: Tool) -> Mapping[str, Any]:
    raw = tool.raw if tool.raw is not None and "name" in tool.raw and "type" not in tool.raw else NOTHING
    if "input_schema" in raw:
        raw = NOTHING
    # The fields win over the raw form: a pass may have renamed the tool.
    out: dict[str, Any] = {**raw, "name": tool.name}
    if tool.description:
        out["description"] = tool.description
    if tool.parameters:
        out[next((key for key in _SCHEMA_KEYS if key in raw), "parametersJsonSchema")] = tool.parameters
    return out


def _tool_choice(choice: str | Mapping[str, Any]) -> dict[str, Any]:
    match choice:
        case "auto" | "none":
            return {"mode": choice.upper()}
        case "required":
            return {"mode": "ANY"}
        case {"type": "tool", "toolName": str() as name}:
            return {"mode": "ANY", "allowedFunctionNames": [name]}
    raise EncodingError(f"unknown choice {choice!r}", place="settings.tool_choice")


def _system_part(message: Message) -> Wire:
    options = _own(message.options)
    if isinstance(block := options.get("block"), Mapping):
        return dict(block)
    return with_extra(_Text(message.text), options.get("extra"))


def _signature(options: Mapping[str, Any]) -> str | UnsetType:
    value = options.get("thoughtSignature")
    return value if isinstance(value, str) else UNSET


def _place(i: int, j: int) -> str:
    return f"messages[{i}].content[{j}]"


def _text(part: Text, role: str, i: int, j: int, unnamed: set[str]) -> Wire | None:
    """The part of a text; None for one that only another protocol's namespace could say and that has no text."""
    if not part.options or (part.text and part.options.keys().isdisjoint(_NAMESPACES)):
        return _Text(part.text)
    if (block := raw_block(part, NAMESPACE)) is not None:
        return dict(block)
    if not part.text and holds_raw_block(part):
        return None
    options = _own(part.options)
    return with_extra(_Text(part.text, UNSET, _signature(options)), options.get("extra"))


def _reasoning(part: Reasoning, role: str, i: int, j: int, unnamed: set[str]) -> Wire:
    if role != "assistant":
        raise refuse(part, role, _place(i, j))
    options = _own(part.options) if part.options else NOTHING
    return with_extra(_Text(part.text, True, _signature(options)), options.get("extra"))


def _file_part(part: File, role: str, i: int, j: int, unnamed: set[str]) -> Wire:
    if role == "tool":
        raise refuse(part, role, _place(i, j))
    options = _own(part.options) if part.options else NOTHING
    media_type, data = bare(part.media_type, part.data)
    thought = True if options.get("thought") is True else UNSET
    out: Wire
    if is_url(data):
        out = _RemotePart(with_extra(_Remote(media_type, data), options.get("inner")), thought, _signature(options))
    else:
        out = _InlinePart(with_extra(_Inline(media_type, data), options.get("inner")), thought, _signature(options))
    return with_extra(out, options.get("extra"))


def _call(part: ToolCall, role: str, i: int, j: int, unnamed: set[str]) -> Wire:
    if role != "assistant":
        raise refuse(part, role, _place(i, j))
    if not part.options and not part.provider_executed:
        unnamed.discard(part.id)
        return _CallPart(_Call(part.name, as_written(part.input), part.id))
    options = _own(part.options) if part.options else NOTHING
    call_id: str | UnsetType = part.id
    if options.get("withoutId") is True:
        unnamed.add(part.id)
        call_id = UNSET
    else:
        unnamed.discard(part.id)
    if part.provider_executed:
        return _hosted_call(part, options, call_id, i, j)
    call = with_extra(_Call(part.name, part.input, call_id), options.get("call"))
    return with_extra(_CallPart(call, _signature(options)), options.get("extra"))


def _hosted_call(part: ToolCall, options: Mapping[str, Any], call_id: str | UnsetType, i: int, j: int) -> Wire:
    kind = options.get("type")
    inner: dict[str, Any]
    if kind == "executableCode":
        inner = {**mapping(part.input)}
    elif kind == "toolCall":
        inner = {"toolType": part.name, "args": part.input}
    else:
        raise EncodingError("a call of a tool that another provider runs has no part here", place=_place(i, j))
    if call_id is not UNSET:
        inner["id"] = call_id
    out: dict[str, Any] = {str(kind): with_extra(inner, options.get("call"))}
    if (signature := _signature(options)) is not UNSET:
        out["thoughtSignature"] = signature
    return with_extra(out, options.get("extra"))


def _result(part: ToolResult, role: str, i: int, j: int, unnamed: set[str]) -> Wire:
    options = _own(part.options) if part.options else NOTHING
    is_unnamed = options.get("resultWithoutId") is True or part.call_id in unnamed
    call_id: str | UnsetType = UNSET if is_unnamed else part.call_id
    if isinstance(options.get("resultId"), str):
        call_id = options["resultId"]
    if role == "assistant":
        return _hosted_result(part, options, call_id, i, j)
    if role != "tool":
        raise refuse(part, role, _place(i, j))
    value, parts = _response(part.output, i, j)
    response = with_extra(_Response(part.name, value, call_id, parts or UNSET), options.get("result"))
    return with_extra(_ResponsePart(response), options.get("resultPart"))


def _hosted_result(part: ToolResult, options: Mapping[str, Any], call_id: str | UnsetType, i: int, j: int) -> Wire:
    kind = options.get("type")
    inner: dict[str, Any]
    if kind == "executableCode":
        inner = {**mapping(part.output.value)}
    elif kind == "toolCall":
        inner = {"toolType": part.name}
        if part.output.value is not None:
            inner["response"] = part.output.value
    else:
        raise EncodingError("a result that another provider's tool gave has no part here", place=_place(i, j))
    if call_id is not UNSET:
        inner["id"] = call_id
    out = {_RESULT_OF[str(kind)]: with_extra(inner, options.get("result"))}
    return with_extra(out, options.get("resultPart"))


def _response(output: Output, i: int, j: int) -> tuple[Any, list[Wire]]:
    """The object of a result, and files beside it."""
    if output.type == "content":
        return _content_response(output.value, i, j)
    if output.is_error:
        return {"error": output.value}, []
    if type(output.value) is JsonObject:
        return output.value.raw, []
    return (output.value if isinstance(output.value, Mapping) else {"result": output.value}), []


def _content_response(items: Iterable[Mapping[str, Any]], i: int, j: int) -> tuple[Any, list[Wire]]:
    value: Any = None
    texts: list[str] = []
    parts: list[Wire] = []
    for item in items:
        options = mapping(item.get("providerOptions"))
        mine = _own(options)
        if isinstance(block := mine.get("block"), Mapping):
            parts.append(dict(block))
            continue
        if isinstance(response := mine.get("response"), Mapping):
            value = response
            continue
        match item:
            case {"type": "text", "text": str() as text}:
                if text or not options:
                    texts.append(text)
            case {"type": "media", "data": str() as data, "mediaType": str() as media_type}:
                media_type, data = bare(media_type, data)
                is_remote = is_url(data)
                parts.append(
                    {"fileData": _Remote(media_type, data)} if is_remote else _InlinePart(_Inline(media_type, data))
                )
            case _:
                raise EncodingError(f"a result can't hold {item.get('type')!r}", place=_place(i, j))
    if texts and value is not None:
        raise EncodingError("a result can't hold both its object and further texts", place=_place(i, j))
    if texts:
        value = {"result": "\n".join(texts)}
    return ({} if value is None else value), parts


_PARTS: dict[type[Part], Callable[..., Wire | None]] = {
    Text: _text,
    Reasoning: _reasoning,
    File: _file_part,
    ToolCall: _call,
    ToolResult: _result,
}


# Body to prompt


@lru_cache(maxsize=1024)
def _camel(key: str) -> str:
    return re.sub(r"_([a-z0-9])", lambda found: found[1].upper(), key)


def _camelled(value: Mapping[str, Any]) -> dict[str, Any]:
    """The object with its own keys in camelCase, those within left alone; without nulls, which mean absent."""
    return {_camel(key): item for key, item in value.items() if item is not None}


def _rest(value: Mapping[str, Any], *known: str) -> dict[str, Any]:
    return {key: item for key, item in value.items() if key not in known}


def _made_id(seed: str, number: int) -> str:
    """The id of a call that came without one; the same whenever the same answer is read."""
    return "call_" + hashlib.sha256(f"{seed}/{number}".encode("utf-8", "surrogatepass")).hexdigest()[:24]


class _Calls:
    """The calls that have no result so far. Without an id, a result belongs to the first one of its name."""

    def __init__(self) -> None:
        self._open: list[ToolCall] = []
        self._turn = 0
        """Where the calls of the newest turn begin."""

    def begin_turn(self) -> None:
        self._turn = len(self._open)

    def add(self, call: ToolCall) -> None:
        self._open.append(call)

    def take(self, call_id: str | None, name: str) -> ToolCall | None:
        at = self._named(call_id) if call_id is not None else None
        if at is None:
            at = self._first_of(name, any_id=call_id is None)
        return None if at is None else self._open.pop(at)

    def _named(self, call_id: str) -> int | None:
        in_turn = (at for at in range(self._turn, len(self._open)) if self._open[at].id == call_id)
        before = (at for at in range(self._turn - 1, -1, -1) if self._open[at].id == call_id)
        return next(in_turn, next(before, None))

    def _first_of(self, name: str, *, any_id: bool) -> int | None:
        for at in range(min(self._turn, len(self._open)), len(self._open)):
            call = self._open[at]
            if call.name == name and (any_id or _own(call.options).get("withoutId")):
                return at
        return None


def decode_request(body: Mapping[str, Any], *, provider: str) -> Imported:
    """The prompt and settings of a request body. Raises InvalidInput naming the place of what does not fit.

    The body names no model: the URL does.
    """
    keys = _camelled(body)
    messages = _decode_system(keys.pop("systemInstruction", None))
    calls = _Calls()
    was_model = False
    for i, item in enumerate(_listed(keys, "contents")):
        place = f"contents[{i}]"
        content = object_in(item, place)
        is_model = content.get("role") == "model"
        if is_model and not was_model:
            calls.begin_turn()
        was_model = is_model
        after_results = bool(messages) and messages[-1].role == "tool"
        messages.extend(_decode_content(content, place, calls, after_results=after_results))
    return Imported(Prompt(tuple(messages)), _decode_settings(keys))


def _listed(value: Mapping[str, Any], key: str, place: str = "") -> list[Any]:
    """The list under `key`; one object alone is short for a list of it."""
    item = value.get(key)
    return [item] if isinstance(item, Mapping) else list_at(value, key, place)


def _decode_system(value: Any) -> list[Message]:
    if value is None:
        return []
    content = object_in(value, "systemInstruction")
    out: list[Message] = []
    for k, item in enumerate(_listed(content, "parts", "systemInstruction")):
        part = object_in(item, f"systemInstruction.parts[{k}]")
        values: dict[str, Any] = {"instruction": _rest(_camelled(content), "parts") if k == 0 else None}
        if isinstance(text := part.get("text"), str):
            values["extra"] = _rest(_camelled(part), "text")
        else:
            text, values["block"] = _visible(part), part
        out.append(Message("system", text, namespaced(NAMESPACE, values)))
    return out


def _decode_content(content: Mapping[str, Any], place: str, calls: _Calls, *, after_results: bool) -> list[Message]:
    role = content.get("role")
    if role not in (None, "user", "model", "function"):
        raise invalid(f"{place}.role", "user or model", role)
    extra = _rest(_camelled(content), "role", "parts")
    items = _listed(content, "parts", place)
    parts = [object_in(part, f"{place}.parts[{k}]") for k, part in enumerate(items)]
    if role == "model":
        made = _model_parts(parts, place, calls, place)
        return [Message("assistant", tuple(made), namespaced(NAMESPACE, {"extra": extra}))]
    marks: dict[str, Any] = {"role": None if role == "user" else role or "", "extra": extra}
    runs: list[tuple[bool, list[Part]]] = []
    for k, part in enumerate(parts):
        at = f"{place}.parts[{k}]"
        keys = _camelled(part)
        is_result = isinstance(keys.get("functionResponse"), Mapping)
        if not runs or runs[-1][0] != is_result:
            runs.append((is_result, []))
        runs[-1][1].append(_decode_result(keys, at, calls) if is_result else _decode_said(part, keys, at))
    out = []
    for number, (is_result, found) in enumerate(runs or [(False, [])]):
        is_apart = is_result and after_results and number == 0
        options = namespaced(NAMESPACE, {**marks, "joined": number > 0, "apart": is_apart})
        out.append(Message("tool" if is_result else "user", tuple(found), options))
    return out


def _decode_said(part: Mapping[str, Any], keys: Mapping[str, Any], place: str) -> Part:
    """A text or a file; any other part as a block."""
    if "text" in keys and not keys.get("thought"):
        text = text_at(keys, "text", place)
        if not text and "thoughtSignature" in keys:
            return _unknown(part)  # an empty text would not outlive the store, and with it the signature
        return Text(text, _part_options(keys, "text") if len(keys) > 1 else None)
    return _decode_file(keys) or _unknown(part)


def _part_options(keys: Mapping[str, Any], *known: str, **values: Any) -> Options | None:
    values["thoughtSignature"] = keys.get("thoughtSignature")
    values["extra"] = _rest(keys, "thought", "thoughtSignature", *known)
    return namespaced(NAMESPACE, values)


def _unknown(part: Mapping[str, Any]) -> Text:
    return Text(_visible(part), {NAMESPACE: {"block": part}})


def _visible(part: Mapping[str, Any]) -> str:
    """What others may read of a part we don't know."""
    code, result = (mapping(_camelled(part).get(key)) for key in ("executableCode", "codeExecutionResult"))
    texts = (part.get("text"), code.get("code"), result.get("output"))
    return next((text for text in texts if isinstance(text, str)), "")


def _decode_file(keys: Mapping[str, Any]) -> File | None:
    """The file of a part; None for one that a file part can't hold."""
    kind = next((kind for kind in ("inlineData", "fileData") if isinstance(keys.get(kind), Mapping)), "")
    inner = _camelled(mapping(keys.get(kind)))
    match inner:
        case {"mimeType": str() as media_type, "data": str() as data} if kind == "inlineData" and media_type:
            known = ("mimeType", "data")
            is_remote = is_url(data) or data.startswith("data:")
            if is_remote:
                return None
        case {"mimeType": str() as media_type, "fileUri": str() as data} if kind == "fileData" and media_type:
            known = ("mimeType", "fileUri")
            if not is_url(data):
                return None
        case _:
            return None
    options = _part_options(keys, kind, thought=keys.get("thought") is True, inner=_rest(inner, *known))
    return File(media_type, data, None, options)


def _model_parts(parts: list[Mapping[str, Any]], place: str, calls: _Calls, seed: str) -> list[Part]:
    """What a model said. Ids of calls that have none are made from `seed`."""
    out: list[Part] = []
    number = 0  # of the next call, for its id
    at = 0
    while at < len(parts):
        part, where = parts[at], f"{place}.parts[{at}]"
        keys = _camelled(part)
        at += 1
        if isinstance(keys.get("functionCall"), Mapping):
            call = _decode_call(keys, where, _made_id(seed, number))
            number += 1
            calls.add(call)
            out.append(call)
        elif keys.get("thought") is True and isinstance(keys.get("text"), str):
            # The namespace alone, also an empty one, says who wrote the part.
            out.append(Reasoning(keys["text"], _part_options(keys, "text") or {NAMESPACE: {}}))
        elif at < len(parts) and (pair := _hosted_pair(keys, _camelled(parts[at]), _made_id(seed, number))):
            number += 1
            at += 1
            out.extend(pair)
        else:
            out.append(_decode_said(part, keys, where))
    return out


def _decode_call(keys: Mapping[str, Any], place: str, made_id: str) -> ToolCall:
    call = _camelled(keys["functionCall"])
    call_id = call.get("id")
    options = _part_options(
        keys, "functionCall", withoutId=not isinstance(call_id, str), call=_rest(call, "id", "name", "args")
    )
    name = text_at(call, "name", f"{place}.functionCall")
    return ToolCall(call_id if isinstance(call_id, str) else made_id, name, call.get("args", {}), options=options)


def _hosted_pair(keys: Mapping[str, Any], next_keys: Mapping[str, Any], made_id: str) -> tuple[Part, Part] | None:
    """A call that the vendor ran and its result, when they are neighbours of one id; else None."""
    kind = next((kind for kind in _RESULT_OF if isinstance(keys.get(kind), Mapping)), None)
    answer = _RESULT_OF[kind] if kind else ""
    if kind is None or not isinstance(next_keys.get(answer), Mapping):
        return None
    call, result = _camelled(keys[kind]), _camelled(next_keys[answer])
    call_id = call.get("id")
    if result.get("id") != call_id or not isinstance(call_id, str | None):
        return None
    marks = {"type": kind, "withoutId": call_id is None}
    name, value, output = _CODE_TOOL, _rest(call, "id"), _rest(result, "id")
    call_rest: dict[str, Any] = {}
    result_rest: dict[str, Any] = {}
    response: Any = output
    if kind == "toolCall":
        name = word_at(call, "toolType")
        if not name or result.get("toolType") != name:
            return None
        value, response = call.get("args", {}), result.get("response")
        call_rest = _rest(call, "id", "toolType", "args")
        result_rest = _rest(result, "id", "toolType", "response")
    call_options = _part_options(keys, kind, **marks, call=call_rest)
    result_marks = {"type": kind, "resultWithoutId": call_id is None, "result": result_rest}
    result_options = namespaced(NAMESPACE, {**result_marks, "resultPart": _rest(next_keys, answer)})
    used = made_id if call_id is None else call_id
    return (
        ToolCall(used, name, value, True, options=call_options),
        ToolResult(used, name, Output("json", response), value, result_options),
    )


def _decode_result(keys: Mapping[str, Any], place: str, calls: _Calls) -> ToolResult:
    result = _camelled(keys["functionResponse"])
    given = result.get("id")
    call_id = given if isinstance(given, str) else None
    name = word_at(result, "name")
    call = calls.take(call_id, name)
    used = call.id if call else call_id or _made_id(place, 0)
    values = {
        "resultWithoutId": call_id is None,
        "resultId": call_id if call_id != used else None,
        "result": _rest(result, "id", "name", "response", "parts"),
        "resultPart": _rest(keys, "functionResponse"),
    }
    output = _decode_output(result, place)
    return ToolResult(used, name, output, call.input if call else UNSET, namespaced(NAMESPACE, values))


def _decode_output(result: Mapping[str, Any], place: str) -> Output:
    response = object_in(result.get("response", {}), f"{place}.functionResponse.response")
    parts = _listed(result, "parts", f"{place}.functionResponse")
    if parts:
        items = [_decode_item(object_in(p, f"{place}.functionResponse.parts[{k}]")) for k, p in enumerate(parts)]
        if response:
            said = {
                "type": "text",
                "text": write_mended(response),
                "providerOptions": {NAMESPACE: {"response": response}},
            }
            items.insert(0, said)
        return Output("content", items)
    match response:
        case {"result": value} if len(response) == 1 and not isinstance(value, Mapping):
            return Output("text" if isinstance(value, str) else "json", value)
        case {"error": str() as text} if len(response) == 1:
            return Output("error-text", text)
    return Output("json", response)


def _decode_item(part: Mapping[str, Any]) -> dict[str, Any]:
    file = _decode_file(_camelled(part))
    if file is not None and file.options is None:
        return {"type": "media", "data": file.data, "mediaType": file.media_type}
    return {"type": "text", "text": _visible(part), "providerOptions": {NAMESPACE: {"block": part}}}


def _decode_settings(keys: dict[str, Any]) -> Settings:
    extra = _rest(keys, "contents", "tools")
    tools = [
        tool
        for i, entry in enumerate(_listed(keys, "tools"))
        for tool in _decode_tools(object_in(entry, f"tools[{i}]"), f"tools[{i}]")
    ]
    choice = None
    if isinstance(config := extra.get("toolConfig"), Mapping):
        config = _camelled(config)
        choice = _decode_choice(config.get("functionCallingConfig"))
        if choice is not None:
            del config["functionCallingConfig"]
        extra["toolConfig"] = config
        if not config:
            del extra["toolConfig"]
    generation: Mapping[str, Any] = NOTHING
    if "generationConfig" in extra:
        generation = _camelled(object_in(extra["generationConfig"], "generationConfig"))
        rest = _rest(generation, "maxOutputTokens", "temperature", "topP", "stopSequences")
        extra["generationConfig"] = rest
        if generation and not rest:
            del extra["generationConfig"]
    return Settings(
        max_tokens=scalar_at(generation, "maxOutputTokens", int),
        temperature=scalar_at(generation, "temperature", int, float),
        top_p=scalar_at(generation, "topP", int, float),
        stop=tuple(list_at(generation, "stopSequences", "generationConfig")),
        tools=tuple(tools),
        tool_choice=choice,
        extra=extra,
    )


def _decode_choice(value: Any) -> str | dict[str, Any] | None:
    config = _camelled(value) if isinstance(value, Mapping) else {}
    mode, names = config.get("mode"), config.get("allowedFunctionNames") or []
    if _rest(config, "mode", "allowedFunctionNames"):
        return None
    match (mode, names):
        case ("AUTO" | "NONE", []):
            return str(mode).lower()
        case ("ANY", []):
            return "required"
        case ("ANY", [str() as name]):
            return {"type": "tool", "toolName": name}
    return None


def _decode_tools(entry: Mapping[str, Any], place: str) -> Iterator[Tool]:
    hosted = {key: item for key, item in entry.items() if _camel(key) != "functionDeclarations"}
    if hosted:
        yield Tool("", raw=hosted)
    declared = _listed(_camelled(entry), "functionDeclarations", place)
    for k, item in enumerate(declared):
        at = f"{place}.functionDeclarations[{k}]"
        tool = object_in(item, at)
        schema = next((tool[key] for key in _SCHEMA_KEYS if isinstance(tool.get(key), Mapping)), NOTHING)
        is_plain = not _rest(_camelled(tool), "name", "description", "parametersJsonSchema")
        yield Tool(text_at(tool, "name", at), tool.get("description") or "", schema, None if is_plain else tool)


# Replies, streams and errors


def decode_reply(body: Mapping[str, Any], *, provider: str) -> Reply:
    """The parts of an answer's first candidate; none when the prompt was blocked.

    Output tokens count the thoughts, input tokens what tools of the vendor read. Raises ProviderError for an error
    that came as an answer, and for what can't be read as one.
    """
    return _reply(body, provider, word_at(body, "responseId"))


def _reply(body: Mapping[str, Any], provider: str, seed: str) -> Reply:
    candidates = body.get("candidates")
    candidate = mapping(candidates[0] if isinstance(candidates, list) and candidates else None)
    block_reason = word_at(mapping(body.get("promptFeedback")), "blockReason")
    if body.get("error") or not (candidate or block_reason):
        raise not_an_answer(provider, body, "no candidates")
    calls = _Calls()
    try:
        items = _listed(mapping(candidate.get("content")), "parts", "content")
        said = [object_in(item, f"content.parts[{k}]") for k, item in enumerate(items)]
        said = [part for part in said if part != {"text": ""}]  # how a stream ends: it says nothing
        parts = _model_parts(said, "content", calls, seed or write_mended(body))
    except InvalidInput as error:
        raise not_an_answer(provider, body, str(error)) from error
    usage = mapping(body.get("usageMetadata"))
    thoughts = count_at(usage, "thoughtsTokenCount")
    return Reply(
        _with_reply_keys(parts, {key: item for key, item in candidate.items() if key not in _NOT_KEPT}),
        _finish_reason(candidate, block_reason, parts),
        Usage(
            input_tokens=count_at(usage, "promptTokenCount") + count_at(usage, "toolUsePromptTokenCount"),
            output_tokens=count_at(usage, "candidatesTokenCount") + thoughts,
            cached_tokens=count_at(usage, "cachedContentTokenCount"),
            reasoning_tokens=thoughts,
        ),
        word_at(body, "responseId"),
        word_at(body, "modelVersion"),
    )


def _with_reply_keys(parts: list[Part], kept: dict[str, Any]) -> tuple[Part, ...]:
    """The parts, the last one with what stands beside them: grounding, citations, safety ratings."""
    if kept and parts:
        last = parts[-1]
        options = {**(last.options or {}), NAMESPACE: {**own(last.options, NAMESPACE), "reply": kept}}
        parts = [*parts[:-1], msgspec.structs.replace(last, options=options)]
    return tuple(parts)


def _finish_reason(candidate: Mapping[str, Any], block_reason: str, parts: list[Part]) -> str:
    """Why the answer ended. Gemini says `STOP` beside calls; a call of an unknown tool is still a call to answer."""
    if block_reason and not candidate:
        return "content-filter"
    said = word_at(candidate, "finishReason")
    reason = _FINISH.get(said, "other")
    has_calls = any(isinstance(part, ToolCall) and not part.provider_executed for part in parts)
    return "tool-calls" if has_calls and (reason == "stop" or said == "UNEXPECTED_TOOL_CALL") else reason


def decode_stream(pieces: Iterable[bytes], *, provider: str) -> Iterator[Chunk]:
    """The chunks of a streamed answer; it is whole with its finish reason.

    Neighbouring fragments of text are one part, with the signature that came with one of them.
    """
    reader = AnswerReader(lambda body, seed: _reply(body, provider, seed), _made_id, provider)
    return read_stream(pieces, reader, provider=provider)


def decode_error(
    status: int, headers: Mapping[str, str], body: str, *, provider: str, now: datetime | None = None
) -> ProviderError:
    """The error that an answer means; see `classify`."""
    return classify(provider, status, headers, body, now)
