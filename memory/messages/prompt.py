"""What one call sends to a model: immutable messages made of typed parts.

A prompt is derived from stored messages for one call and never the record of what happened. Nothing here is
ever mutated: whoever changes a prompt returns a new one that shares what it left alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import is_
from typing import Any, Literal, get_args

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from memory.messages.names import provider_id
from memory.messages.values import plain

Options = Mapping[str, Any]
"""Provider options by namespace: `{"anthropic": {"signature": ...}}`."""


class Origin(Struct, frozen=True, gc=False):
    """Who wrote a turn. `provider` is one of our provider ids; unknown parts are empty text."""

    provider: str
    protocol: str = ""
    model_id: str = ""


class Text(Struct, frozen=True, gc=False, tag="text"):
    text: str
    options: Options | None = None
    at: int | None = None
    """Index of the stored part this one was made from; None for what a pass made up."""
    of: str = ""
    """Id of the stored message it came from, where that is not its prompt message's."""


class Reasoning(Struct, frozen=True, gc=False, tag="reasoning"):
    text: str
    options: Options | None = None
    at: int | None = None
    origin: Origin | None = None
    """Stamp of the part itself, else that of its turn."""
    of: str = ""


_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://")


def is_url(data: str) -> bool:
    """Whether a file's data are the address of it, not its bytes; a data URI holds bytes."""
    return _URL.match(data) is not None


class File(Struct, frozen=True, gc=False, tag="file"):
    media_type: str
    data: str
    """A URL, or bare base64."""
    filename: str | None = None
    options: Options | None = None
    at: int | None = None
    of: str = ""


class ToolCall(Struct, frozen=True, gc=False, tag="tool-call"):
    id: str
    name: str
    input: Any
    provider_executed: bool | None = None
    pending: bool = False
    """No outcome is stored for it."""
    options: Options | None = None
    at: int | None = None
    of: str = ""


class Output(Struct, frozen=True, gc=False):
    type: Literal["text", "json", "error-text", "error-json", "content"]
    value: Any

    @property
    def is_error(self) -> bool:
        return self.type in ("error-text", "error-json")


class ToolResult(Struct, frozen=True, gc=False, tag="tool-result"):
    call_id: str
    name: str
    output: Output
    input: Any | UnsetType = UNSET
    """Arguments of its call."""
    options: Options | None = None
    at: int | None = None
    of: str = ""


Part = Text | Reasoning | File | ToolCall | ToolResult
ALL_PARTS: frozenset[type[Part]] = frozenset(get_args(Part))
Role = Literal["system", "user", "assistant", "tool"]


class Message(Struct, frozen=True, gc=False):
    """One turn by one role. `content` is a text for system messages (and where the caller gave one), else parts."""

    role: Role
    content: str | tuple[Part, ...]
    options: Options | None = None
    id: str = ""
    """Id of the stored message it came from; never sent."""
    origin: Origin | None = None
    parted: bool = False
    """Conversion began this message because of a tool part before it; no stored step marker stands there."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts; a plain text counts as one text part."""
        content = self.content
        return (Text(content),) if isinstance(content, str) else content

    @property
    def text(self) -> str:
        """All text of the message, joined by newline."""
        return "\n".join(part.text for part in self.parts if isinstance(part, Text))


class Prompt(Struct, frozen=True):
    """What one call sends, system messages first, then oldest message first."""

    messages: tuple[Message, ...]

    def map_parts(
        self,
        change: Callable[[Message, Any], Part | None],
        *,
        roles: Sequence[Role] = (),
        of: frozenset[type[Part]] = ALL_PARTS,
        at: Iterable[int] | None = None,
    ) -> Prompt:
        """Apply `change` to every part (of these roles and types); None drops it, and a message so emptied goes too.

        Messages that were empty before stay. With `at` only these places are looked at. The same object if nothing
        changed.
        """
        messages: list[Message | None] = []
        for i in range(len(self.messages)) if at is None else at:
            message = self.messages[i]
            content = message.content
            # Most messages hold nothing of what a pass is about: that has to cost next to nothing.
            if isinstance(content, str) or (roles and message.role not in roles):
                continue
            if at is None and of.isdisjoint(map(type, content)):
                continue
            parts: list[Part] | None = None
            for j, part in enumerate(content):
                new = change(message, part) if type(part) in of else part
                if parts is None and new is not part:
                    parts = list(content[:j])
                if parts is not None and new is not None:
                    parts.append(new)
            if parts is not None:
                messages = messages or list(self.messages)
                messages[i] = replace(message, content=tuple(parts)) if parts else None
        return Prompt(tuple(filter(None, messages))) if messages else self

    def answers(self) -> dict[int, ToolResult]:
        """By identity of each call its result: a result belongs to the nearest earlier unanswered call of its id.

        One inside an assistant message belongs to a call its provider ran, if there is one, any other to a client's.
        """
        waiting: dict[str, list[ToolCall]] = {}
        out: dict[int, ToolResult] = {}
        for message in self.messages:
            for part in message.parts:
                if isinstance(part, ToolCall):
                    waiting.setdefault(part.id, []).append(part)
                elif isinstance(part, ToolResult) and (calls := waiting.get(part.call_id)):
                    is_inside = message.role == "assistant"
                    fitting = [call for call in calls if bool(call.provider_executed) is is_inside]
                    call = (fitting or calls)[-1]
                    calls[:] = [other for other in calls if other is not call]
                    out[id(call)] = part
        return out

    def with_messages(self, messages: Sequence[Message]) -> Prompt:
        """This prompt with other messages; the same object if they are the very same ones."""
        if len(messages) == len(self.messages) and all(map(is_, messages, self.messages)):
            return self
        return Prompt(tuple(messages))


def own_origin(options: Options | None) -> Origin | None:
    """The stamp of a part itself (`mastra.provider`, `protocol`, `modelId`), or None when it carries none."""
    stamp = options.get("mastra") if options else None
    if stamp is None or not isinstance(stamp, Mapping):
        return None
    provider = stamp.get("provider")
    if not isinstance(provider, str) or not provider:
        return None
    return Origin(provider_id(provider), stamp.get("protocol") or "", stamp.get("modelId") or "")


def raw_block(part: Part, namespace: str) -> Mapping[str, Any] | None:
    """The wire block that this provider wrote and we do not know: it goes back to it as it came, and nowhere else.

    Kept as `{namespace: {"block": {...}}}` in the options of a text part, whose text is what others may read of it.
    """
    value = part.options.get(namespace) if part.options and isinstance(part, Text) else None
    if value is None:
        return None
    block = value.get("block") if isinstance(value, Mapping) else None
    return block if isinstance(block, Mapping) else None


def holds_raw_block(part: Part) -> bool:
    """Whether any namespace of the part holds such a block."""
    return isinstance(part, Text) and any(raw_block(part, name) is not None for name in part.options or ())


# JSON form of a prompt, as the specification of the language-model prompt writes it


def prompt_to_json(prompt: Prompt) -> list[dict[str, Any]]:
    """The prompt as JSON values. Ours and never sent: `id` of a message, `pending: true` of a call."""
    return [_message_to_json(message) for message in prompt.messages]


def prompt_to_json_like(prompt: Prompt, source: Prompt, given: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The prompt as JSON values; messages and parts it shares with `source`, read from `given`, are those given.

    So what a rule left alone comes back as it was spelt, unknown keys too.
    """
    whole: dict[int, Mapping[str, Any]] = {}
    pieces: dict[int, Any] = {}
    for message, value in zip(source.messages, given, strict=True):
        whole[id(message)] = value
        if not isinstance(message.content, str):
            pieces |= {id(part): piece for part, piece in zip(message.content, value["content"], strict=True)}
    out: list[dict[str, Any]] = []
    for message in prompt.messages:
        if id(message) in whole:
            out.append(dict(whole[id(message)]))
            continue
        made = _message_to_json(message)
        if not isinstance(message.content, str):
            made["content"] = [pieces.get(id(p), j) for p, j in zip(message.content, made["content"], strict=True)]
        out.append(made)
    return out


def prompt_from_json(messages: Iterable[Mapping[str, Any]]) -> Prompt:
    """A prompt from its JSON form. Raises ValueError naming the place when a role or part type is unknown."""
    return Prompt(tuple(_message_from_json(m, f"messages[{i}]") for i, m in enumerate(messages)))


def _message_to_json(message: Message) -> dict[str, Any]:
    content = message.content if isinstance(message.content, str) else [_part_to_json(p) for p in message.content]
    out: dict[str, Any] = {"role": message.role, "content": content}
    if message.options is not None:
        out["providerOptions"] = message.options
    if message.id:
        out["id"] = message.id
    return out


def _part_to_json(part: Part) -> dict[str, Any]:
    out: dict[str, Any]
    match part:
        case Text():
            out = {"type": "text", "text": part.text}
        case Reasoning():
            out = {"type": "reasoning", "text": part.text}
        case File():
            out = {"type": "file", "mediaType": part.media_type, "data": part.data}
            if part.filename is not None:
                out["filename"] = part.filename
        case ToolCall():
            out = {"type": "tool-call", "toolCallId": part.id, "toolName": part.name, "input": plain(part.input)}
            if part.provider_executed is not None:
                out["providerExecuted"] = part.provider_executed
            if part.pending:
                out["pending"] = True
        case ToolResult():
            output = {"type": part.output.type, "value": plain(part.output.value)}
            out = {"type": "tool-result", "toolCallId": part.call_id, "toolName": part.name, "output": output}
            if part.input is not UNSET:
                out["input"] = plain(part.input)
    if part.options is not None:
        out["providerOptions"] = part.options
    return out


def _message_from_json(message: Mapping[str, Any], place: str) -> Message:
    role, content = message.get("role"), message.get("content")
    if role not in ("system", "user", "assistant", "tool"):
        raise ValueError(f"{place}.role: expected system, user, assistant or tool, got {role!r}")
    if isinstance(content, str):
        parts: str | tuple[Part, ...] = content
    elif isinstance(content, list):
        parts = tuple(_part_from_json(part, f"{place}.content[{i}]") for i, part in enumerate(content))
    else:
        raise ValueError(f"{place}.content: expected a text or a list of parts")
    return Message(role, parts, options=_options(message), id=message.get("id") or "")


def _options(value: Mapping[str, Any]) -> Options | None:
    options, metadata = value.get("providerOptions"), value.get("providerMetadata")
    if not isinstance(metadata, Mapping):
        return options if isinstance(options, Mapping) else None
    return {**metadata, **options} if isinstance(options, Mapping) else metadata


def _part_from_json(part: Any, place: str) -> Part:
    if not isinstance(part, Mapping):
        raise ValueError(f"{place}: expected a part, got {type(part).__name__}")
    options = _options(part)
    try:
        match part.get("type"):
            case "text":
                return Text(part.get("text") or "", options)
            case "reasoning":
                return Reasoning(part.get("text") or "", options, None, own_origin(options))
            case "file":
                media_type = part.get("mediaType") or part.get("mimeType")
                if not isinstance(media_type, str):
                    raise KeyError("mediaType")
                return File(media_type, part.get("data") or "", part.get("filename"), options)
            case "image":
                return File(part.get("mediaType") or "image/unknown", part.get("image") or "", None, options)
            case "tool-call":
                return ToolCall(
                    part["toolCallId"],
                    part["toolName"],
                    part.get("input", {}),
                    part.get("providerExecuted"),
                    bool(part.get("pending")),
                    options,
                )
            case "tool-result":
                output = part["output"]
                compact = part.get("modelOutput", part.get("model_output"))
                if compact is not None:
                    mastra = (options or {}).get("mastra")
                    kept = mastra if isinstance(mastra, Mapping) else {}
                    options = {**(options or {}), "mastra": {**kept, "modelOutput": compact}}
                return ToolResult(
                    part["toolCallId"],
                    part.get("toolName") or "",
                    Output(output["type"], output.get("value")),
                    part.get("input", UNSET),
                    options,
                )
    except (KeyError, TypeError) as error:
        raise ValueError(f"{place}: {part.get('type')} without {error}") from error
    raise ValueError(f"{place}.type: unknown part type {part.get('type')!r}")
