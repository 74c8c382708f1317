"""Exchanges: a request and its answer, and how one goes on from another."""

from __future__ import annotations

import base64
import binascii
import re
import struct
import unicodedata
import zlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from msgspec import Struct, to_builtins

from memory.errors import InvalidInput, ProviderError
from memory.imports import detect
from memory.imports.values import PREFIX, SECOND, START, Line, digest, json_text, key_of, label, stamped, word
from memory.messages.convert import to_prompt
from memory.messages.from_prompt import from_prompt
from memory.messages.names import provider_id
from memory.messages.prompt import Message, Prompt
from memory.messages.stored import StoredMessage, instant, parts_of, text_of, timestamp
from memory.providers import wire_module
from memory.providers.wire import Finished, Reply, WireModule

TITLE_LENGTH = 80
LABEL_LENGTH = 300
_THOUGHT = re.compile(r"<think>.*?</think>", re.DOTALL)
_VENDORS = {
    "anthropic-messages": "anthropic",
    "gemini-contents": "gemini",
    "bedrock-converse": "bedrock",
    "cohere-v2": "cohere",
}
_STATE_KEYS = ("previous_response_id", "conversation")
"""Keys of a Responses request whose history is at the provider: its input is only what is new."""
_TYPOGRAPHY = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "…": "..."} | dict.fromkeys("-–—‑", ""))


class Conversation(Struct, frozen=True, kw_only=True):
    """A thread in the making: its messages, and those of them that no row holds yet, or holds otherwise.

    `imported` is what its thread keeps: system texts and tools of the newest line, who answered that, and for each
    line how many messages there were after it.
    """

    thread_id: str
    messages: Sequence[StoredMessage]
    unsaved: Sequence[StoredMessage]
    imported: Mapping[str, Any]
    last_error: str = ""
    remark: str = ""
    """What of the newest line was left out, and why."""

    @property
    def title(self) -> str:
        return title_of(self.messages)


def title_of(messages: Sequence[StoredMessage]) -> str:
    """The first words of the user."""
    texts = (text_of(message["content"]) for message in messages if message["role"] == "user")
    return " ".join(next((text for text in texts if text.strip()), "").split())[:TITLE_LENGTH]


# A line and what was before it


def joined(before: Conversation | None, line: Line) -> Conversation:
    """The conversation after this line: `before` with what is new, else one of its own with the whole history.

    It is one of its own, too, when another line went on from the same place, or when the thread is not what the line
    begins with. Raises InvalidInput for a request that can't be read.
    """
    wire = wire_module(line.protocol)
    read = wire.decode_request(line.request, provider=line.provider)
    history = _history(before, line, read.prompt)
    answer, last_error, remark = _answer(wire, line)
    imported = {
        "system": [message.text for message in read.prompt.messages if message.role == "system"],
        "tools": to_builtins(read.settings.tools),
        "provider": line.provider,
        "protocol": line.protocol,
        "model": line.model,
        "line": line.id,
    }
    known, changed, stamp, lines = _known(before, line, history)
    new = [stamped(message, stamp) for message in history[len(known) :]] + [stamped(m, line.stamp) for m in answer]
    if not known and not new:
        raise InvalidInput("it holds no messages")
    new = _with_ids_and_times(new, line, known)
    messages = [*known, *new]
    return Conversation(
        thread_id=before.thread_id if before is not None and known else thread_id_of(line),
        messages=messages,
        unsaved=[*changed, *new],
        imported={**imported, "lines": {**lines, line.id: len(messages)}},
        last_error=last_error,
        remark=remark,
    )


def _history(before: Conversation | None, line: Line, prompt: Prompt) -> list[StoredMessage]:
    """The stored form of what a request says; of one that names its predecessor's answer, with all that was before."""
    if before is None or not any(line.request.get(key) for key in _STATE_KEYS):
        return from_prompt(prompt)
    history = from_prompt(prompt)
    if _goes_on(before, line, history):
        return history
    return from_prompt(Prompt(to_prompt(before.messages).messages + prompt.messages))


def _known(
    before: Conversation | None, line: Line, history: Sequence[StoredMessage]
) -> tuple[list[StoredMessage], list[StoredMessage], dict[str, str], dict[str, int]]:
    """The messages this line goes on from, those of them its request changed, who answers in it, earlier lines.

    Open calls that the request brings results for are answered: results are kept with their calls.
    """
    if before is None or not _goes_on(before, line, history):
        return [], [], line.stamp, {}
    known, changed = [], []
    for old, sent in zip(before.messages, history, strict=False):
        answered = _with_outcomes(old, sent)
        known.append(answered)
        if answered is not old:
            changed.append(answered)
    names = {"provider": "provider", "protocol": "protocol", "modelId": "model"}
    stamp = {name: before.imported[key] for name, key in names.items() if before.imported[key]}
    return known, changed, stamp, dict(before.imported["lines"])


def _goes_on(before: Conversation, line: Line, history: Sequence[StoredMessage]) -> bool:
    newest, lines = before.imported["line"], before.imported["lines"]
    if newest != line.continues or lines.get(newest) != len(before.messages):
        return False
    if len(history) < len(before.messages):
        return False
    return all(_gist(old) == _gist(sent) for old, sent in zip(before.messages, history, strict=False))


def _gist(message: StoredMessage) -> tuple[str, str, list[str]]:
    """What tells that two forms of a turn are the same one.

    Ids and signatures may differ from host to host; some clients send reasoning back as tagged text, some write
    typographic characters as plain ones.
    """
    names = [part["toolInvocation"]["toolName"] for part in _calls(message)]
    said = _THOUGHT.sub("", text_of(message["content"])).translate(_TYPOGRAPHY)
    return message["role"], "".join(unicodedata.normalize("NFKC", said).split()), names


def _calls(message: StoredMessage) -> list[dict[str, Any]]:
    """Calls to a client's tools; some clients leave out what the provider ran itself."""
    parts = (part for part in parts_of(message["content"]) if part.get("type") == "tool-invocation")
    return [part for part in parts if not part.get("providerExecuted")]


def _with_outcomes(old: StoredMessage, sent: StoredMessage) -> StoredMessage:
    """The stored turn with the results that its calls got since; the same object when there are none."""
    outcomes = {
        id(mine): theirs
        for mine, theirs in zip(_calls(old), _calls(sent), strict=True)
        if mine["toolInvocation"]["state"] == "call" and theirs["toolInvocation"]["state"] != "call"
    }
    if not outcomes:
        return old
    parts = []
    for part in old["content"]["parts"]:
        if (answered := outcomes.get(id(part))) is not None:
            theirs = answered["toolInvocation"]
            kept = {key: theirs[key] for key in ("state", "result", "errorText") if key in theirs}
            metadata = {**(part.get("providerMetadata") or {}), **(answered.get("providerMetadata") or {})}
            part = {**part, "toolInvocation": {**part["toolInvocation"], **kept}}
            if metadata:
                part["providerMetadata"] = metadata
        parts.append(part)
    return {**old, "content": {**old["content"], "parts": parts}}


# Answers


def _answer(wire: WireModule, line: Line) -> tuple[list[StoredMessage], str, str]:
    """The line's last turn, the error it ended with, and what of its answer was left out."""
    if line.status >= 400:
        body = line.response if isinstance(line.response, str) else json_text(line.response)
        if line.response is None:
            body = line.stream.decode("utf-8", "replace")
        headers = {name: value for name, value in line.headers.items() if isinstance(value, str)}
        return [], _shown(wire.decode_error(line.status, headers, body, provider=line.provider)), ""
    if line.stream and line.response is None:
        return _streamed(wire, line)
    if line.response is None:
        return [], "", ""
    if not isinstance(line.response, Mapping):
        return [], "", "its answer is left out: expected an object"
    try:
        reply = wire.decode_reply(line.response, provider=line.provider)
    except ProviderError as error:
        if line.response.get("error"):
            return [], _shown(error), ""
        return [], "", f"its answer is left out: {error}"
    return _turn(reply), "", ""


def _streamed(wire: WireModule, line: Line) -> tuple[list[StoredMessage], str, str]:
    """As `_answer`; of a stream that broke off, what had come."""
    try:
        for chunk in wire.decode_stream([line.stream], provider=line.provider):
            if isinstance(chunk, Finished):
                return _turn(chunk.reply), "", ""
    except ProviderError as error:
        return (_turn(error.partial) if isinstance(error.partial, Reply) else []), _shown(error), ""
    return [], "", "its streamed answer is left out: it has no end"


def _turn(reply: Reply) -> list[StoredMessage]:
    return from_prompt(Prompt((Message("assistant", tuple(reply.parts)),))) if reply.parts else []


def _shown(error: ProviderError) -> str:
    return label(" ".join(f"{error.error_class}: {error}".split()), 500)


def _with_ids_and_times(
    messages: Sequence[StoredMessage], line: Line, known: Sequence[StoredMessage]
) -> list[StoredMessage]:
    """Ids `<line>#<n>`; times a second apart, from the date of the line if that is not before what is known."""
    last = instant(known[-1]["createdAt"]) if known else None
    at = max(last + SECOND if last else START, _date(line.headers) or START)
    return [
        {**message, "id": f"{line.key}#{n}", "createdAt": timestamp(at + n * SECOND)}
        for n, message in enumerate(messages)
    ]


def _date(headers: Mapping[str, Any]) -> datetime | None:
    value = next((value for name, value in headers.items() if name.lower() == "date"), None)
    if not isinstance(value, str):
        return None
    try:
        at = parsedate_to_datetime(value)
    except ValueError:
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


# Reading a line


def name_of(value: Any) -> str:
    """The id that a line has of its own; empty without."""
    if not isinstance(value, Mapping) or "messages" in value:
        return ""
    return label(word(value, "id"), LABEL_LENGTH)


def read_line(value: Any, *, protocol: str = "") -> Line:
    """The exchange that a decoded line means: a recorded one, or a bare request body (of `protocol`, else guessed).

    Raises InvalidInput for one without a request, and for what is neither.
    """
    if isinstance(value, list) and all(isinstance(message, Mapping) for message in value):
        value = detect.body_of(value)
    if not isinstance(value, Mapping):
        raise InvalidInput("neither a recorded exchange nor a request body")
    if "request" not in value and any(key in value for key in ("messages", "contents", "input")):
        return _bare(value, protocol)
    if not any(key in value for key in ("request", "response", "protocol")):
        raise InvalidInput("neither a recorded exchange nor a request body")
    request = value.get("request")
    if request is None:
        raise InvalidInput("it holds no request")
    if not isinstance(request, Mapping):
        raise InvalidInput("request: expected an object")
    protocol = word(value, "protocol") or protocol or detect.guessed_protocol(request)
    line_id = name_of(value) or f"body-{digest(value)}"
    status = value.get("status")
    headers = value.get("headers")
    return Line(
        id=line_id,
        key=key_of(line_id),
        provider=provider_id(word(value, "provider") or word(value, "protocol")) or _vendor(protocol),
        protocol=protocol,
        model=word(value, "model") or _model(request),
        request=request,
        response=value.get("response"),
        status=status if isinstance(status, int) else 200,
        stream=_stream(value),
        continues=label(word(value, "continues"), LABEL_LENGTH),
        headers=headers if isinstance(headers, Mapping) else {},
    )


def _bare(body: Mapping[str, Any], protocol: str) -> Line:
    protocol, line_id = protocol or detect.guessed_protocol(body), f"body-{digest(body)}"
    return Line(
        id=line_id, key=line_id, provider=_vendor(protocol), protocol=protocol, model=_model(body), request=body
    )


def _vendor(protocol: str) -> str:
    """Whom a body without a provider is said to come from: the vendor of its protocol."""
    return _VENDORS.get(protocol) or provider_id(protocol)


def _model(body: Mapping[str, Any]) -> str:
    return word(body, "model", "modelId")


def thread_id_of(line: Line) -> str:
    """The id of the thread that this line starts."""
    return f"{PREFIX}{line.key}"


# Streams, as recordings keep them


def _stream(value: Mapping[str, Any]) -> bytes:
    """The bytes of a streamed answer: as they came, or put together again. Raises InvalidInput for bad base64."""
    if sse := word(value, "sse"):
        return sse.encode("utf-8", "replace")
    if raw := word(value, "eventstream_base64"):
        try:
            return base64.b64decode(raw, validate=True)
        except binascii.Error as error:
            raise InvalidInput("eventstream_base64: not base64") from error
    events = value.get("events")
    found = [event for event in events if isinstance(event, Mapping)] if isinstance(events, list) else []
    return b"".join(_frame(str(kind), json_text(data)) for event in found for kind, data in event.items())


def _frame(kind: str, payload: str) -> bytes:
    """An event of Amazon's binary stream; `memory.providers.eventstream` says how one is built."""
    names = {":message-type": "exception", ":exception-type": kind}
    if not kind.endswith("Exception"):
        names = {":message-type": "event", ":event-type": kind}
    pairs = ((name.encode(), text.encode()) for name, text in names.items())
    head = b"".join(bytes([len(name)]) + name + b"\x07" + len(text).to_bytes(2, "big") + text for name, text in pairs)
    data = payload.encode()
    prelude = struct.pack(">II", 16 + len(head) + len(data), len(head))
    body = prelude + struct.pack(">I", zlib.crc32(prelude)) + head + data
    return body + struct.pack(">I", zlib.crc32(body))
