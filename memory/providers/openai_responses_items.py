"""Items of the OpenAI Responses protocol read as parts: those of a request's `input` and of an answer's `output`.

Where each key is kept is told by `openai_responses`, which writes them again.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Iterator, Mapping, Set
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET

from memory.messages.prompt import (
    File,
    Message,
    Options,
    Output,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    is_url,
)
from memory.providers.shared import (
    bare,
    extra_keys,
    invalid,
    list_at,
    mapping,
    namespaced,
    object_in,
    text_at,
)

NAMESPACE = "openai"

CLIENT_CALLS = frozenset({"function_call", "custom_tool_call", "local_shell_call", "computer_call", "apply_patch_call"})
"""Calls that the caller carries out; every other one is the provider's own, unless it says otherwise."""

_ANSWERED_APART = CLIENT_CALLS | {"shell_call", "tool_search_call"}
"""Calls whose outcome is an item of its own; others hold it themselves."""

_ASKED = frozenset({"action", "arguments", "code", "container_id", "environment", "input", "operation", "queries"})
"""Keys of a call that say what was asked; of a call that holds its outcome all others say what came of it."""

_NAMED_KEPT = frozenset({"server_label", "approval_request_id"})
"""Keys of a hosted call with a name and arguments that say neither what was asked nor what came of it."""

_TEXT_OUTPUTS = ("function_call_output", "custom_tool_call_output")
_AUDIO_TYPES = {"mp3": "audio/mpeg", "wav": "audio/wav"}


def output_type(call_type: str) -> str:
    """The type of the item that answers a call: `function_call` has `function_call_output`."""
    return "tool_search_output" if call_type == "tool_search_call" else f"{call_type}_output"


class Reader:
    """Reads items one after another; results find their calls among those read so far."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._calls: dict[str, ToolCall] = {}
        self._search = ""  # id of the last tool search, whose output may name no call

    def parts(self, item: Mapping[str, Any], place: str) -> list[Part]:
        """What an assistant's item holds. Raises InvalidInput naming the place of what does not fit."""
        kind = item.get("type")
        if kind == "reasoning":
            return [*self._reasoning(item, place)]
        if isinstance(kind, str) and kind.endswith("_call") and _call_id(item):
            return self._call(kind, item, place)
        if isinstance(kind, str) and kind.endswith("_output") and (call_id := self._answered(kind, item)):
            return [self._result(kind, call_id, item, place)]
        if kind in (None, "message") and item.get("role") == "assistant":
            return self._said(item, place)
        return [self.raw(item, is_item=True)]

    def content(self, value: Any, place: str) -> tuple[Part, ...]:
        """What the content of a user's, a developer's or a system's message holds."""
        if value is None:
            return ()
        if isinstance(value, str):
            return (Text(value),)
        if not isinstance(value, list):
            raise invalid(place, "a text or a list", value)
        places = [f"{place}[{j}]" for j in range(len(value))]
        return tuple(self._piece(object_in(piece, at), at) for piece, at in zip(value, places, strict=True))

    def raw(self, block: Mapping[str, Any], *, is_item: bool) -> Text:
        """A block we don't know: it goes back to the host that it came from."""
        text = next((block[key] for key in ("text", "refusal") if isinstance(block.get(key), str)), "")
        return Text(text, namespaced(NAMESPACE, {"block": block, "host": self._provider, "isItem": is_item}))

    # Messages

    def _piece(self, piece: Mapping[str, Any], place: str) -> Part:
        if piece.get("type") == "input_text":
            further = extra_keys(piece, "type", "text")
            return Text(text_at(piece, "text", place), namespaced(NAMESPACE, {"content": further}))
        return file_of(piece) or self.raw(piece, is_item=False)

    def _said(self, item: Mapping[str, Any], place: str) -> list[Part]:
        content = item.get("content")
        values: dict[str, Any] = {"itemId": item.get("id"), "item": _further(item, "type", "role", "id", "content")}
        if content is None or isinstance(content, str):
            return [Text(content or "", namespaced(NAMESPACE, values))]
        parts: list[Part] = []
        for j, value in enumerate(list_at(item, "content", place)):
            at = f"{place}.content[{j}]"
            piece = object_in(value, at)
            if piece.get("type") == "output_text":
                further = {key: found for key, found in extra_keys(piece, "type", "text").items() if found != []}
                text, values = text_at(piece, "text", at), {**values, "content": further}
            elif piece.get("type") == "refusal":
                further = extra_keys(piece, "type", "refusal")
                text, values = text_at(piece, "refusal", at), {**values, "content": further, "refusal": True}
            else:
                text, values = "", {**values, "block": piece, "host": self._provider}
            parts.append(Text(text, namespaced(NAMESPACE, values)))
            # Not by the id, which would make one text of them when they are stored.
            values = {"joined": True}
        return parts or [Text("", namespaced(NAMESPACE, {**values, "isEmpty": True}))]

    def _reasoning(self, item: Mapping[str, Any], place: str) -> Iterator[Reasoning]:
        """One part for each text of an item: the summary's first, then those of the reasoning itself."""
        values: dict[str, Any] = {
            "itemId": item.get("id"),
            "reasoningEncryptedContent": item.get("encrypted_content"),
            "item": _further(item, "type", "id", "encrypted_content", "summary", "content"),
        }
        texts = [("summary_text", piece) for piece in list_at(item, "summary", place)]
        texts += [("reasoning_text", piece) for piece in list_at(item, "content", place)]
        for j, (usual, value) in enumerate(texts):
            piece = object_in(value, place)
            text = piece.get("text")
            is_plain = isinstance(text, str) and text and piece.get("type") == usual and len(piece) == 2
            marks: dict[str, Any] = {"isSummary": None if usual == "summary_text" else False, "joined": j > 0}
            marks["piece"] = None if is_plain else piece
            yield Reasoning(text if isinstance(text, str) else "", _own({**values, **marks}, "isSummary"))
            # Neighbours of one item are known by its id; what is long stands once.
            values = {"itemId": item.get("id")}
        if not texts:
            yield Reasoning("", _own(values))

    # Calls and results

    def _call(self, kind: str, item: Mapping[str, Any], place: str) -> list[Part]:
        """The call of an item, and its result where the item holds that too."""
        is_hosted = _is_hosted(kind, item)
        rest = _further(item, "type", "id", "call_id")
        if is_hosted:
            # Null is said here: for some of these items the vendor's own types demand the key.
            rest |= {key: None for key, value in item.items() if value is None and key not in ("id", "call_id")}
        values: dict[str, Any] = {"itemId": item.get("id")}
        kept = frozenset[str]()
        if kind == "function_call" or (is_hosted and isinstance(item.get("name"), str) and "arguments" in item):
            name, kept = text_at(item, "name", place), _NAMED_KEPT
            asked, values["rawArguments"] = _arguments(item.get("arguments"))
            values["isNamed"] = is_hosted
            rest = _without(rest, {"name", "arguments"})
        elif kind == "custom_tool_call":
            name, asked = text_at(item, "name", place), text_at(item, "input", place)
            values["custom"] = True
            rest = _without(rest, {"name", "input"})
        else:
            name = kind.removesuffix("_call")
            asked = {key: value for key, value in rest.items() if key in _ASKED}
            rest = _without(rest, _ASKED)
        came: dict[str, Any] | None = None
        if is_hosted:
            # A call of the provider's own is always written with its status.
            rest.setdefault("status", "completed")
            if kind not in _ANSWERED_APART:
                came, rest = _without(rest, kept), {key: value for key, value in rest.items() if key in kept}
            if isinstance(item.get("call_id"), str):
                rest["call_id"] = item["call_id"]
        if kind not in ("function_call", "custom_tool_call"):
            rest["type"] = kind
        values["call"] = rest
        options = namespaced(NAMESPACE, values)
        call = ToolCall(_call_id(item), name, asked, True if is_hosted else None, options=options)
        self._calls[call.id] = call
        if kind == "tool_search_call":
            self._search = call.id
        if came is None:
            return [call]
        # The store keeps a call and its result as one, so both have the same options.
        return [call, ToolResult(call.id, name, Output("json", came), asked, options)]

    def _answered(self, kind: str, item: Mapping[str, Any]) -> str:
        """The id of the call that an output answers; empty when it names none."""
        call_id = item.get("call_id")
        if isinstance(call_id, str):
            return call_id
        return self._search if kind == "tool_search_output" else ""

    def _result(self, kind: str, call_id: str, item: Mapping[str, Any], place: str) -> ToolResult:
        call = self._calls.get(call_id)
        rest = _further(item, "type", "id", "call_id")
        if kind in _TEXT_OUTPUTS:
            output = self._output(rest.pop("output", None), f"{place}.output")
        else:
            about = {"status", "execution"}
            output = Output("json", _without(rest, about))
            rest = {key: value for key, value in rest.items() if key in about}
        if call is not None and call.provider_executed:
            rest.setdefault("status", "completed")
            if isinstance(item.get("call_id"), str):
                rest["call_id"] = item["call_id"]
        if kind != "function_call_output":
            rest["type"] = kind
        options = namespaced(NAMESPACE, {"resultItemId": item.get("id"), "result": rest})
        return ToolResult(call_id, call.name if call else "", output, call.input if call else UNSET, options)

    def is_hosted(self, result: ToolResult) -> bool:
        """Whether the provider ran the call that this answers."""
        call = self._calls.get(result.call_id)
        return call is not None and call.provider_executed is True

    def _output(self, value: Any, place: str) -> Output:
        if value is None or isinstance(value, str):
            return Output("text", value or "")
        if not isinstance(value, list):
            raise invalid(place, "a text or a list", value)
        pieces = [object_in(piece, f"{place}[{k}]") for k, piece in enumerate(value)]
        if len(pieces) == 1 and pieces[0].keys() == {"type", "text"} and pieces[0]["type"] == "input_text":
            return Output("text", text_at(pieces[0], "text", place))
        return Output("content", [self._result_item(piece) for piece in pieces])

    def _result_item(self, piece: Mapping[str, Any]) -> dict[str, Any]:
        match piece:
            case {"type": "input_text", "text": str() as text}:
                out: dict[str, Any] = {"type": "text", "text": text}
                options: Options | None = namespaced(NAMESPACE, {"content": extra_keys(piece, "type", "text")})
            case _ if (file := file_of(piece)) is not None:
                out = {"type": "media", "data": file.data, "mediaType": file.media_type}
                options = file.options
                if file.filename is not None:
                    options = {NAMESPACE: {**(options or {}).get(NAMESPACE, {}), "filename": file.filename}}
            case _:
                raw = self.raw(piece, is_item=False)
                out, options = {"type": "text", "text": raw.text}, raw.options
        return out if options is None else {**out, "providerOptions": options}


def file_of(piece: Mapping[str, Any]) -> File | None:
    """The file of a content part; None for one that a file part can't hold, such as an uploaded one."""
    filename = None
    known: tuple[str, ...]
    match piece:
        case {"type": "input_image", "image_url": str() as data}:
            known, (media_type, data) = ("image_url",), bare("image/*", data)
            if not media_type.startswith("image/") or data.startswith("data:"):
                return None
            usual = "input_image"
        case {"type": "input_file", "file_data": str() as uri}:
            known, (media_type, data) = ("file_data", "filename"), bare("", uri)
            filename = piece.get("filename")
            if not media_type or is_url(data):
                return None
            usual = "" if media_type.startswith(("image/", "audio/", "video/")) else "input_file"
        case {"type": "input_file", "file_url": str() as data}:
            known, filename = ("file_url", "filename"), piece.get("filename")
            media_type = mimetypes.guess_type(urlsplit(data).path)[0] or "application/octet-stream"
            if not is_url(data):
                return None
            usual = "" if media_type.startswith("image/") else "input_file"
        case {"type": "input_audio", "input_audio": {"data": str() as data, "format": str() as form}}:
            if len(piece["input_audio"]) != 2:
                return None
            known, media_type, usual = ("input_audio",), _AUDIO_TYPES.get(form) or f"audio/{form}", "input_audio"
        case _:
            return None
    further = extra_keys(piece, "type", *known)
    if not usual:
        # Its media type alone would make another part of it.
        further["type"] = piece["type"]
    return File(media_type, data, filename, namespaced(NAMESPACE, {"content": further}))


def messages_of(items: list[Any], provider: str) -> list[Message]:
    """The messages of a request's `input`. Neighbouring items of one role are one message."""
    reader = Reader(provider)
    out: list[Message] = []
    for i, value in enumerate(items):
        place = f"input[{i}]"
        item = object_in(value, place)
        role, kind = item.get("role"), item.get("type")
        if role in ("system", "developer") and kind in (None, "message"):
            leads = all(earlier.role == "system" for earlier in out)
            out.extend(_system(item, str(role), place, reader, leads=leads))
        elif role == "user" and kind in (None, "message"):
            values = {"item": _further(item, "type", "role", "content")}
            parts = reader.content(item.get("content"), f"{place}.content")
            out.append(Message("user", parts, namespaced(NAMESPACE, values)))
        elif role in ("user", "system", "developer") or kind == "mcp_approval_response":
            out.append(Message("user", (reader.raw(item, is_item=True),)))
        elif kind is None and role != "assistant":
            raise invalid(f"{place}.role", "system, developer, user or assistant", role)
        else:
            _add(out, reader.parts(item, place), reader)
    return out


def _add(messages: list[Message], parts: list[Part], reader: Reader) -> None:
    """Parts of one item behind those of the items before it."""
    is_result = isinstance(parts[0], ToolResult) and not reader.is_hosted(parts[0])
    role: Any = "tool" if is_result else "assistant"
    if messages and (last := messages[-1]).role == role:
        messages[-1] = Message(role, (*last.parts, *parts))
    else:
        messages.append(Message(role, tuple(parts)))


def _system(item: Mapping[str, Any], role: str, place: str, reader: Reader, *, leads: bool) -> list[Message]:
    further = _further(item, "type", "role", "content")
    parts = reader.content(item.get("content"), f"{place}.content")
    if not leads or not parts or not all(isinstance(part, Text) and not _is_raw(part) for part in parts):
        return [Message("user", parts, namespaced(NAMESPACE, {"role": role, "item": further}))]
    out = []
    for j, part in enumerate(parts):
        values = {"role": "developer" if role == "developer" else None, "joined": j > 0, "item": {} if j else further}
        values["content"] = mapping(mapping(part.options).get(NAMESPACE)).get("content")
        out.append(Message("system", part.text if isinstance(part, Text) else "", namespaced(NAMESPACE, values)))
    return out


def _is_raw(part: Text) -> bool:
    return "block" in mapping(mapping(part.options).get(NAMESPACE))


def _call_id(item: Mapping[str, Any]) -> str:
    """What a call is known by: the id that its output names, else the item's own."""
    found = item.get("call_id") or item.get("id")
    return found if isinstance(found, str) else ""


def _is_hosted(kind: str, item: Mapping[str, Any]) -> bool:
    """Whether the provider carries the call out itself."""
    if kind == "shell_call":
        return str(mapping(item.get("environment")).get("type")).startswith("container")
    return kind not in CLIENT_CALLS and item.get("execution") != "client"


def _without(values: Mapping[str, Any], keys: Set[str]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key not in keys}


def _arguments(value: Any) -> tuple[Any, bool]:
    """Arguments of a call, and whether they are a text that is no JSON."""
    if isinstance(value, str):
        try:
            return msgspec.json.decode(value), False
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return value, True
    return {} if value is None else value, False


def _further(item: Mapping[str, Any], *known: str) -> dict[str, Any]:
    """Keys that have no place in a part; an item is completed unless it says otherwise."""
    return {key: value for key, value in extra_keys(item, *known).items() if (key, value) != ("status", "completed")}


def _own(values: Mapping[str, Any], *kept: str) -> Options:
    """Options in our namespace, an empty one too: it says who wrote the part. `kept` stay also when false."""
    options = namespaced(NAMESPACE, values) or {NAMESPACE: {}}
    options[NAMESPACE] |= {key: values[key] for key in kept if values.get(key) is False}
    return options
