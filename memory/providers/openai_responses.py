"""The OpenAI Responses protocol, as OpenAI, Azure and other hosts of it speak it.

Faithful both ways: nothing is repaired here, and what the protocol can't say raises. An assistant turn is a flat list
of items, one or more for each part. What has no place in a prompt is kept in options of the namespace `openai`, and
goes back as it came:

    text, reasoning   itemId, item (further keys of its item), joined (same item as the part before it)
    text, file        content (further keys of its content part); refusal: the text is a refusal
    text              block with host and isItem: an item or content part that we don't know, and who sent it;
                      isEmpty: its item has no content
    reasoning         reasoningEncryptedContent, isSummary: false (a text of the reasoning itself), piece (an odd text)
    tool call         itemId, call (further keys, `type` when it is no function_call), rawArguments, custom,
                      isNamed (a hosted call that has name and arguments)
    tool result       resultItemId, result (further keys, `type` when it is no function_call_output)
    message           role: system or developer, joined, item, content, instructions

A call that the provider ran holds its outcome in its own item, so its result says the rest of that item's keys; where
the outcome is an item of its own (tool search, shell), the result is that item. A call of the provider's own that was
stored without its item, but with its id, is named by that id. Neighbouring reasoning parts with one itemId are one
item, and so are texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from functools import cached_property
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from memory.errors import EncodingError, InvalidInput, ProviderError
from memory.messages.prompt import (
    File,
    Message,
    Part,
    Prompt,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    holds_raw_block,
    is_url,
)
from memory.messages.values import JsonObject, write_json
from memory.providers.classify import classify
from memory.providers.openai_responses_items import NAMESPACE, Reader, messages_of, output_type
from memory.providers.openai_responses_stream import ResponseReader
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
    list_at,
    lone_text,
    mapping,
    not_an_answer,
    object_in,
    own,
    refuse,
    scalar_at,
    with_extra,
    word_at,
)
from memory.providers.sse import stream_of as stream_of
from memory.providers.streams import add_keys, read_stream
from memory.providers.wire import Chunk, Encoded, Imported, Reply, Settings, Tool, Usage

PROTOCOL = "openai-responses"

_AUDIO_FORMATS = {"audio/mpeg": "mp3", "audio/mp3": "mp3", "audio/wav": "wav", "audio/x-wav": "wav"}
_INCOMPLETE = {"max_output_tokens": "length", "max_tokens": "length", "content_filter": "content-filter"}


class _InputText(Struct, frozen=True, gc=False, tag="input_text"):
    text: str


class _OutputText(Struct, frozen=True, gc=False, tag="output_text"):
    text: str
    annotations: tuple[()] = ()


class _Refusal(Struct, frozen=True, gc=False, tag="refusal"):
    refusal: str


class _Image(Struct, frozen=True, gc=False, tag="input_image"):
    image_url: str


class _FileData(Struct, frozen=True, gc=False, tag="input_file"):
    file_data: str
    filename: str | UnsetType = UNSET


class _FileUrl(Struct, frozen=True, gc=False, tag="input_file"):
    file_url: str
    filename: str | UnsetType = UNSET


class _AudioData(Struct, frozen=True, gc=False):
    data: str
    format: str


class _Audio(Struct, frozen=True, gc=False, tag="input_audio"):
    input_audio: _AudioData


class _Message(Struct, frozen=True, gc=False):
    role: str
    content: str | list[Wire]


class _Said(Struct, frozen=True, gc=False, tag="message"):
    role: str
    content: list[Wire]
    id: str | UnsetType = UNSET
    status: str | UnsetType = UNSET


class _SummaryText(Struct, frozen=True, gc=False, tag="summary_text"):
    text: str


class _ReasoningText(Struct, frozen=True, gc=False, tag="reasoning_text"):
    text: str


class _Reasoning(Struct, frozen=True, gc=False, tag="reasoning"):
    summary: list[Wire]
    content: list[Wire] | UnsetType = UNSET
    id: str | UnsetType = UNSET
    encrypted_content: str | UnsetType = UNSET


class _Call(Struct, frozen=True, gc=False, tag="function_call"):
    call_id: str
    name: str
    arguments: str
    id: str | UnsetType = UNSET


class _Output(Struct, frozen=True, gc=False, tag="function_call_output"):
    call_id: str
    output: str | list[Wire]
    id: str | UnsetType = UNSET


class _Places(Places):
    """Places of a body whose messages are items of `input`; name `instructions` stands for that key."""

    @cached_property
    def _pointers(self) -> dict[tuple[int, int], str]:
        out: dict[tuple[int, int], str] = {}
        for i, j, number, name, index in self._landed:
            item = "/instructions" if name == "instructions" else f"/input/{number}"
            out.setdefault((i, -1), item)
            if j >= 0:
                within = name and name != "instructions"
                out[i, j] = (f"{item}/{name}" if index < 0 else f"{item}/{name}/{index}") if within else item
        return out


# Prompt to body


def encode_request(prompt: Prompt, settings: Settings, *, provider: str) -> Encoded:
    """The request for a prompt. Raises EncodingError naming the place of what items can't express."""
    writer = _Writer(provider)
    items, landed = writer.items, writer.landed
    instructions: str | None = None
    for i, message in enumerate(prompt.messages):
        role = message.role
        if role in ("user", "assistant") and not message.options and (text := lone_text(message)) is not None:
            landed.append((i, 0, len(items), "content", -1))
            items.append(_Message(role, text))
            continue
        options = _mine(message.options) if message.options else NOTHING
        match role:
            case "system" if options.get("instructions") is True and i == 0:
                instructions = message.text
                landed.append((i, 0, 0, "instructions", -1))
            case "system":
                writer.system(message, options, i, prompt)
            case "user":
                writer.user(message, options, i)
            case "assistant":
                writer.assistant(message, i)
            case "tool":
                writer.results(message, i)
    return Encoded("/responses", encode_body(_body(instructions, items, settings)), _Places(landed))


def as_stream(encoded: Encoded, *, provider: str) -> Encoded:
    """The same request, asking for a streamed answer."""
    return add_keys(encoded, b'"stream":true')


def _body(instructions: str | None, items: list[Wire], settings: Settings) -> dict[str, Any]:
    body: dict[str, Any] = {"model": settings.model_id} if settings.model_id else {}
    if instructions is not None:
        body["instructions"] = instructions
    if items:
        body["input"] = items
    if settings.max_tokens is not None:
        body["max_output_tokens"] = settings.max_tokens
    if settings.tools:
        body["tools"] = [_tool(tool, f"tools[{i}]") for i, tool in enumerate(settings.tools)]
    if settings.tool_choice is not None:
        body["tool_choice"] = _tool_choice(settings.tool_choice)
    if settings.temperature is not None:
        body["temperature"] = settings.temperature
    if settings.top_p is not None:
        body["top_p"] = settings.top_p
    if settings.stop:
        raise EncodingError("this protocol knows no stop texts", place="settings.stop")
    for key, value in settings.extra.items():
        if key in body or key == "input":
            raise EncodingError("is set already and can't be a further key", place=f"settings.extra.{key}")
        if key not in ("stream", "stream_options"):
            body[key] = value
    return body


def _tool(tool: Tool, place: str) -> Mapping[str, Any]:
    raw = tool.raw
    if not tool.name:
        # Others nest what this protocol writes flat; dated types are Anthropic's.
        is_foreign = raw is None or any(key in raw for key in ("function", "custom", "input_schema"))
        if raw is None or is_foreign or "type" not in raw or str(raw["type"])[-8:].isdecimal():
            raise EncodingError("a tool that another provider runs", place=place)
        return raw
    is_own = raw is not None and raw.get("type") == "function" and "function" not in raw
    # The fields win over the raw form: a pass may have renamed the tool.
    out: dict[str, Any] = {**(raw if raw and is_own else {"strict": False}), "type": "function", "name": tool.name}
    if tool.description:
        out["description"] = tool.description
    if tool.parameters or not is_own:
        out["parameters"] = tool.parameters or {"type": "object", "properties": {}}
    return out


def _tool_choice(choice: str | Mapping[str, Any]) -> str | dict[str, Any]:
    match choice:
        case "auto" | "none" | "required":
            return str(choice)
        case {"type": "tool", "toolName": str() as name}:
            return {"type": "function", "name": name}
    raise EncodingError(f"unknown choice {choice!r}", place="settings.tool_choice")


def _mine(options: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """What these options hold for us; other systems keep what came from Azure under its own name."""
    return own(options, NAMESPACE) or own(options, "azure")


def _item_id(mine: Mapping[str, Any], key: str = "itemId") -> str | UnsetType:
    found = mine.get(key)
    return found if isinstance(found, str) and found else UNSET


class _Writer:
    """Writes messages as items."""

    def __init__(self, provider: str) -> None:
        self.items: list[Wire] = []
        self.landed: list[Landed] = []
        self._provider = provider
        self._hosted: dict[str, dict[str, Any] | None] = {}  # None: named by its id alone
        self._types: dict[str, str] = {}  # of calls that are no function calls

    def system(self, message: Message, options: Mapping[str, Any], i: int, prompt: Prompt) -> None:
        piece = with_extra(_InputText(message.text), options.get("content"))
        follows = i and prompt.messages[i - 1].role == "system" and self.items
        if options.get("joined") is True and follows:
            before = as_dict(self.items[-1])
            content = before["content"]
            pieces = [_InputText(content), piece] if isinstance(content, str) else [*content, piece]
            self.items[-1] = {**before, "content": pieces}
        else:
            role = "developer" if options.get("role") == "developer" else "system"
            plain = message.text if isinstance(piece, _InputText) else [piece]
            self.items.append(with_extra(_Message(role, plain), options.get("item")))
        self.landed.append((i, 0, len(self.items) - 1, "", -1))

    def user(self, message: Message, options: Mapping[str, Any], i: int) -> None:
        given = options.get("role")
        role = given if given in ("system", "developer") else "user"
        content: list[Wire] = []
        is_written = False
        for j, part in enumerate(message.parts):
            if not isinstance(part, Text | File):
                raise refuse(part, "user", f"messages[{i}].content[{j}]")
            mine = _mine(part.options) if part.options else NOTHING
            if isinstance(part, Text) and mine.get("isItem") is True and (block := self._block(mine)) is not None:
                self._close(role, content, options)
                content = []
                is_written = True
                self._add(i, j, block)
            elif (piece := self._piece(part, mine, f"messages[{i}].content[{j}]")) is not None:
                self.landed.append((i, j, len(self.items), "content", len(content)))
                content.append(piece)
        if content or not is_written:
            if not content:
                self.landed.append((i, -1, len(self.items), "", -1))
            self._close(role, content, options, is_empty_too=True)

    def _close(self, role: str, content: list[Wire], options: Mapping[str, Any], *, is_empty_too: bool = False) -> None:
        if not content and not is_empty_too:
            return
        said: str | list[Wire] = content
        if len(content) == 1 and isinstance(only := content[0], _InputText):
            said = only.text
            last = self.landed[-1]
            self.landed[-1] = (*last[:4], -1)
        self.items.append(with_extra(_Message(role, said), options.get("item")))

    def _piece(self, part: Text | File, mine: Mapping[str, Any], place: str) -> Wire | None:
        """The content part; None for one that only another host's block could say and that has no text."""
        if isinstance(part, File):
            return _file(part.media_type, part.data, part.filename, place, mine)
        if not part.options:
            return _InputText(part.text)
        if (block := self._block(mine)) is not None:
            return block
        if not part.text and holds_raw_block(part):
            return None
        return with_extra(_InputText(part.text), mine.get("content"))

    def _block(self, mine: Mapping[str, Any]) -> dict[str, Any] | None:
        block = mine.get("block")
        return dict(block) if isinstance(block, Mapping) and mine.get("host") == self._provider else None

    def _add(self, i: int, j: int, item: Wire) -> None:
        self.landed.append((i, j, len(self.items), "", -1))
        self.items.append(item)

    # Turns of an assistant

    def assistant(self, message: Message, i: int) -> None:
        self.landed.append((i, -1, len(self.items), "", -1))
        before: Part | None = None
        for j, part in enumerate(message.parts):
            mine = _mine(part.options) if part.options else NOTHING
            if type(part) is Text:
                before = part if self._text(part, mine, before, i, j) else before
                continue
            if type(part) is Reasoning:
                self._reasoning(part, mine, before, i, j)
            elif type(part) is ToolCall:
                self._call(part, mine, i, j)
            elif type(part) is ToolResult:
                self._hosted_result(part, mine, i, j)
            else:
                raise refuse(part, "assistant", f"messages[{i}].content[{j}]")
            before = part

    def _text(self, part: Text, mine: Mapping[str, Any], before: Part | None, i: int, j: int) -> bool:
        """Write a text; false when there was nothing to write."""
        if not mine and part.text:
            self.landed.append((i, j, len(self.items), "content", -1))
            self.items.append(_Message("assistant", part.text))
            return True
        block = self._block(mine)
        if block is not None and mine.get("isItem") is True:
            self._add(i, j, block)
            return True
        if block is None and not part.text and holds_raw_block(part):
            return False
        item_id = _item_id(mine)
        piece: Wire = block or _said(part, mine)
        if isinstance(before, Text) and _continues(before, mine, item_id) and self._is_said():
            last = as_dict(self.items[-1])
            content = [_OutputText(last["content"])] if isinstance(last["content"], str) else last["content"]
            self.landed.append((i, j, len(self.items) - 1, "content", len(content)))
            self.items[-1] = {**last, "content": [*content, piece]}
            return True
        if item_id is UNSET and isinstance(piece, _OutputText) and not mine.get("item"):
            self.landed.append((i, j, len(self.items), "content", -1))
            self.items.append(_Message("assistant", part.text))
            return True
        pieces = [] if mine.get("isEmpty") is True and not part.text else [piece]
        further = mapping(mine.get("item"))
        status = UNSET if item_id is UNSET or "status" in further else "completed"
        self.landed.append((i, j, len(self.items), "content", 0))
        self.items.append(with_extra(_Said("assistant", pieces, item_id, status), further))
        return True

    def _is_said(self) -> bool:
        last = self.items[-1] if self.items else None
        if isinstance(last, dict):
            return last.get("role") == "assistant" and "content" in last
        return isinstance(last, _Message | _Said) and last.role == "assistant"

    def _reasoning(self, part: Reasoning, mine: Mapping[str, Any], before: Part | None, i: int, j: int) -> None:
        item_id = _item_id(mine)
        is_summary = mine.get("isSummary") is not False
        piece: Wire | None = None
        if isinstance(given := mine.get("piece"), Mapping):
            piece = dict(given)
        elif part.text:
            piece = _SummaryText(part.text) if is_summary else _ReasoningText(part.text)
        pieces = [] if piece is None else [piece]
        sealed = mine.get("reasoningEncryptedContent")
        sealed = sealed if isinstance(sealed, str) else UNSET
        key = "summary" if is_summary else "content"
        if isinstance(before, Reasoning) and _continues(before, mine, item_id):
            last = as_dict(self.items[-1])
            merged = [*(last.get(key) or ()), *pieces]
            self.items[-1] = {**last, key: merged} | ({} if sealed is UNSET else {"encrypted_content": sealed})
            self.landed.append((i, j, len(self.items) - 1, key, len(merged) - 1))
            return
        self.landed.append((i, j, len(self.items), key, 0) if pieces else (i, j, len(self.items), "", -1))
        item = (
            _Reasoning(pieces, UNSET, item_id, sealed)
            if is_summary
            else _Reasoning([], pieces or UNSET, item_id, sealed)
        )
        self.items.append(with_extra(item, mine.get("item")))

    def _call(self, part: ToolCall, mine: Mapping[str, Any], i: int, j: int) -> None:
        if not mine and not part.provider_executed and type(part.input) is JsonObject:
            self._add(i, j, _Call(part.id, part.name, part.input.text))
            return
        place = f"messages[{i}].content[{j}]"
        further = mapping(mine.get("call"))
        kind = further.get("type")
        item_id = _item_id(mine)
        if part.provider_executed and not isinstance(kind, str):
            if item_id is UNSET:
                raise EncodingError("a call that another provider ran itself", place=place)
            self._hosted[part.id] = None
            self._add(i, j, {"type": "item_reference", "id": item_id})
        elif part.provider_executed:
            asked: Mapping[str, Any] = {"name": part.name, "arguments": _json_text(part.input, mine, place)}
            if mine.get("isNamed") is not True:
                asked = _object(part.input, place)
            ids = {} if item_id is UNSET else {"id": item_id}
            self._hosted[part.id] = item = {"type": kind, **ids, **asked, **further}
            self._add(i, j, item)
        elif isinstance(kind, str):
            self._types[part.id] = kind
            ids = {"call_id": part.id} if item_id is UNSET else {"id": item_id, "call_id": part.id}
            self._add(i, j, {"type": kind, **ids, **_object(part.input, place), **further})
        elif mine.get("custom") is True and isinstance(part.input, str):
            self._types[part.id] = "custom_tool_call"
            ids = {} if item_id is UNSET else {"id": item_id}
            own_keys = {"type": "custom_tool_call", **ids, "call_id": part.id, "name": part.name, "input": part.input}
            self._add(i, j, with_extra(own_keys, further))
        else:
            call = _Call(part.id, part.name, _json_text(part.input, mine, place), item_id)
            self._add(i, j, with_extra(call, further))

    def _hosted_result(self, part: ToolResult, mine: Mapping[str, Any], i: int, j: int) -> None:
        place = f"messages[{i}].content[{j}]"
        further, value = mapping(mine.get("result")), part.output.value
        if isinstance(further.get("type"), str):
            item_id = _item_id(mine, "resultItemId")
            ids = {} if item_id is UNSET else {"id": item_id}
            self._add(i, j, {"type": further["type"], **ids, **_object(value, place), **further})
            return
        if part.call_id not in self._hosted:
            raise EncodingError("a result that another provider's tool gave has no item here", place=place)
        call = self._hosted[part.call_id]
        number = len(self.items) - 1
        if call is not None:
            number = next(n for n in range(number, -1, -1) if self.items[n] is call)
            call.update({key: item for key, item in _object(value, place).items() if key not in call})
        self.landed.append((i, j, number, "", -1))

    def results(self, message: Message, i: int) -> None:
        for j, part in enumerate(message.parts):
            if not isinstance(part, ToolResult):
                raise refuse(part, "tool", f"messages[{i}].content[{j}]")
            value = part.output.value
            if not part.options and type(value) is JsonObject and part.call_id not in self._types:
                self._add(i, j, _Output(part.call_id, value.text))
                continue
            place = f"messages[{i}].content[{j}]"
            mine = _mine(part.options) if part.options else NOTHING
            further = mapping(mine.get("result"))
            item_id = _item_id(mine, "resultItemId")
            kind = further.get("type") or output_type(self._types.get(part.call_id, "function_call"))
            if kind == "function_call_output":
                output = _Output(part.call_id, self._output(part, place), item_id)
                self._add(i, j, with_extra(output, further))
                continue
            ids = {"call_id": part.call_id} if item_id is UNSET else {"id": item_id, "call_id": part.call_id}
            if "type" in further and kind != "custom_tool_call_output" and isinstance(value, Mapping):
                self._add(i, j, {"type": kind, **ids, **value, **further})
            else:
                self._add(i, j, {"type": kind, **ids, "output": self._output(part, place), **further})

    def _output(self, part: ToolResult, place: str) -> str | list[Wire]:
        value = part.output.value
        if part.output.type == "content":
            return [piece for item in value if (piece := self._result_item(item, place)) is not None]
        return value if isinstance(value, str) and part.output.type.endswith("text") else _json(value, place)

    def _result_item(self, item: Mapping[str, Any], place: str) -> Wire | None:
        options = mapping(item.get("providerOptions"))
        mine = _mine(options) if options else NOTHING
        if (block := self._block(mine)) is not None:
            return block
        match item:
            case {"type": "text", "text": str() as text}:
                return with_extra(_InputText(text), mine.get("content")) if text or not options else None
            case {"type": "media", "data": str() as data, "mediaType": str() as media_type}:
                return _file(media_type, data, mine.get("filename"), place, mine)
        raise EncodingError(f"a result can't hold {item.get('type')!r}", place=place)


def _said(part: Text, mine: Mapping[str, Any]) -> Wire:
    further = mapping(mine.get("content"))
    if mine.get("refusal") is True:
        return with_extra(_Refusal(part.text), further)
    text = _OutputText(part.text)
    # What a user's text was sent with says nothing here; annotations replace the empty list.
    return {**as_dict(text), **further} if further else text


def _continues(before: Part, mine: Mapping[str, Any], item_id: str | UnsetType) -> bool:
    """Whether a part belongs to the item of the one right before it."""
    return mine.get("joined") is True or (item_id is not UNSET and _item_id(_mine(before.options)) == item_id)


def _object(value: Any, place: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise EncodingError("what a provider's own tool took or gave must be an object", place=place)
    return value


def _json(value: Any, place: str) -> str:
    try:
        return write_json(value)
    except (UnicodeError, TypeError, ValueError, RecursionError) as error:
        raise EncodingError(f"a value that is no JSON: {error}", place=place) from error


def _json_text(value: Any, mine: Mapping[str, Any], place: str) -> str:
    """Arguments as JSON text; those that are none go back letter by letter."""
    return value if mine.get("rawArguments") is True and isinstance(value, str) else _json(value, place)


def _file(media_type: str, data: str, filename: Any, place: str, mine: Mapping[str, Any]) -> Wire:
    """A file as a content part. `mine.content` are further keys of it, and its type where the media type misleads."""
    further = mapping(mine.get("content"))
    media_type, data = bare(media_type, data)
    remote = is_url(data)
    kind = further.get("type")
    if media_type.startswith("image/") and kind != "input_file":
        return with_extra(_Image(data if remote else f"data:{media_type};base64,{data}"), further)
    name = filename if isinstance(filename, str) else UNSET
    if remote:
        return with_extra(_FileUrl(data, name), further)
    if media_type.startswith("audio/") and kind != "input_file":
        form = _AUDIO_FORMATS.get(media_type) or media_type.removeprefix("audio/")
        return with_extra(_Audio(_AudioData(data, form)), further)
    if media_type.startswith("video/") and kind != "input_file":
        raise EncodingError(f"a file of type {media_type!r} can't be sent", place=place)
    return with_extra(_FileData(f"data:{media_type};base64,{data}", name), further)


# Body to prompt


def decode_request(body: Mapping[str, Any], *, provider: str) -> Imported:
    """The prompt and settings of a request body. Raises InvalidInput naming the place of what does not fit.

    Neighbouring items of an assistant become one message, neighbouring outputs another. `instructions` are the first
    system message; what continues a state at the provider (`previous_response_id`, `conversation`) is a further key.
    """
    messages: list[Message] = []
    instructions = body.get("instructions")
    if isinstance(instructions, str):
        messages.append(Message("system", instructions, {NAMESPACE: {"instructions": True}}))
    given = body.get("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else list_at(body, "input")
    messages.extend(messages_of(items, provider))
    extra = extra_keys(
        body, "model", "input", "max_output_tokens", "tools", "temperature", "top_p", "stream", "stream_options"
    )
    if isinstance(instructions, str):
        del extra["instructions"]
    choice = _decode_choice(extra.get("tool_choice"))
    if choice is not None:
        del extra["tool_choice"]
    settings = Settings(
        model_id=scalar_at(body, "model", str) or "",
        max_tokens=scalar_at(body, "max_output_tokens", int),
        temperature=scalar_at(body, "temperature", int, float),
        top_p=scalar_at(body, "top_p", int, float),
        tools=tuple(_decode_tool(object_in(t, f"tools[{i}]")) for i, t in enumerate(list_at(body, "tools"))),
        tool_choice=choice,
        extra=extra,
    )
    return Imported(Prompt(tuple(messages)), settings)


def _decode_choice(choice: Any) -> str | dict[str, Any] | None:
    match choice:
        case "auto" | "none" | "required":
            return str(choice)
        case {"type": "function", "name": str() as name} if len(choice) == 2:
            return {"type": "tool", "toolName": name}
    return None


def _decode_tool(tool: Mapping[str, Any]) -> Tool:
    name, parameters = tool.get("name"), tool.get("parameters")
    if tool.get("type") != "function" or not isinstance(name, str):
        return Tool("", raw=tool)
    is_plain = tool.get("strict") is False and bool(parameters)
    is_plain = is_plain and not extra_keys(tool, "type", "name", "description", "parameters", "strict")
    return Tool(name, tool.get("description") or "", mapping(parameters), None if is_plain else tool)


# Replies, streams and errors


def decode_reply(body: Mapping[str, Any], *, provider: str) -> Reply:
    """The parts of an answer's items. One that runs in the background has none yet, and ends with `other`.

    Raises ProviderError for an error that came as an answer, and for what can't be read as one.
    """
    output = body.get("output")
    if not isinstance(output, list) or body.get("error"):
        raise not_an_answer(provider, body, "no output")
    reader = Reader(provider)
    parts: list[Part] = []
    try:
        for j, item in enumerate(output):
            parts.extend(reader.parts(object_in(item, f"output[{j}]"), f"output[{j}]"))
    except InvalidInput as error:
        raise not_an_answer(provider, body, str(error)) from error
    usage = mapping(body.get("usage"))
    return Reply(
        tuple(parts),
        _finish_reason(body, parts),
        Usage(
            input_tokens=count_at(usage, "input_tokens"),
            output_tokens=count_at(usage, "output_tokens"),
            cached_tokens=count_at(mapping(usage.get("input_tokens_details")), "cached_tokens"),
            reasoning_tokens=count_at(mapping(usage.get("output_tokens_details")), "reasoning_tokens"),
        ),
        word_at(body, "id"),
        word_at(body, "model"),
    )


def _finish_reason(body: Mapping[str, Any], parts: list[Part]) -> str:
    match word_at(body, "status"):
        case "incomplete":
            return _INCOMPLETE.get(word_at(mapping(body.get("incomplete_details")), "reason"), "other")
        case "failed":
            return "error"
        case "queued" | "in_progress" | "cancelled":
            return "other"
    if any(isinstance(part, ToolCall) and not part.provider_executed for part in parts):
        return "tool-calls"
    refused = any(isinstance(part, Text) and _mine(part.options).get("refusal") is True for part in parts)
    return "refusal" if refused else "stop"


def decode_stream(pieces: Iterable[bytes], *, provider: str) -> Iterator[Chunk]:
    """The chunks of a streamed answer; it ends with the event that holds the response, nothing behind it is read."""
    reader = ResponseReader(lambda body: decode_reply(body, provider=provider), provider)
    return read_stream(pieces, reader, provider=provider)


def decode_error(
    status: int, headers: Mapping[str, str], body: str, *, provider: str, now: datetime | None = None
) -> ProviderError:
    """The error that an answer means; see `classify`."""
    return classify(provider, status, headers, body, now)
