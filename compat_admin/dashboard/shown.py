"""Stored messages as a page shows them: parts with their sizes, cut where they are long.

Whatever a part holds, something is shown for it: an unknown shape shows its JSON, an unreadable one why it is so.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct, structs

from compat_admin.dashboard.json_lines import pretty
from compat_admin.dashboard.tags import size as in_words
from memory.messages.stored import UNREADABLE, parts_of, read_content
from memory.messages.values import write_json
from memory.queries import MessageItem

SHOWN_BYTES = 2000
SHOWN_PARTS = 40
INLINE_IMAGE_BYTES = 256_000
LAID_OUT_CHARACTERS = 100_000
_IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_DATA_URI = re.compile(r"data:([^;,]*)((?:;[^;,]*)*?)(;base64)?,", re.ASCII)
_BASE64 = re.compile(r"[A-Za-z0-9+/=_\s-]+", re.ASCII)

Kind = Literal["text", "reasoning", "call", "file", "source", "step", "unreadable", "other"]
Mark = Literal["ok", "warn", "err", "live", ""]

_STATES: dict[str, tuple[str, Mark]] = {
    "result": ("answered", "ok"),
    "output-error": ("failed", "err"),
    "output-denied": ("denied", "warn"),
    "approval-requested": ("waits for approval", "live"),
    "approval-responded": ("decided, not run yet", "live"),
    "partial-call": ("arguments incomplete", "warn"),
}


class Cut(Struct, frozen=True):
    """The beginning of a text, and how large the whole is."""

    text: str
    size: int
    missing: int = 0


class Shown(Struct, frozen=True, kw_only=True):
    """A part. `n` counts from 0; `whole` and `result` are None where there is nothing to show of that sort."""

    n: int
    kind: Kind
    title: str = ""
    note: str = ""
    call_id: str = ""
    state: str = ""
    mark: Mark = ""
    body: Cut | None = None
    result: Cut | None = None
    result_note: str = ""
    size: int = 0
    image: str = ""
    link: str = ""


class ShownMessage(Struct, frozen=True):
    """A message of a page with its parts; `hidden` parts follow that are not shown."""

    item: MessageItem
    parts: list[Shown]
    hidden: int
    foot: str


def shown_message(item: MessageItem) -> ShownMessage:
    """A message as its page shows it. One that came without its content is told by its summary."""
    if item.content is None:
        parts = [_unloaded(n, entry) for n, entry in enumerate(item.summary[:SHOWN_PARTS])]
        return ShownMessage(item, parts, max(0, len(item.summary) - SHOWN_PARTS), _foot(item.summary))
    stored = effective_parts(read_content(item.content))
    parts = [shown_part(n, part, is_open=item.is_open) for n, part in enumerate(stored[:SHOWN_PARTS])]
    return ShownMessage(item, parts, max(0, len(stored) - SHOWN_PARTS), _foot(item.summary))


def shown_shape(item: MessageItem) -> ShownMessage:
    """A message that came without its content, for who may not read: kinds and sizes, and no reason of a version,
    which may quote it."""
    return shown_message(structs.replace(item, content=None, reason=""))


def effective_parts(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The parts of a message; where the legacy fields hold what the parts lack, as parts of the same shape."""
    parts = parts_of(content)
    kinds = {part.get("type") for part in parts}
    if isinstance(content.get("reasoning"), str) and "reasoning" not in kinds:
        parts = [{"type": "reasoning", "reasoning": content["reasoning"]}, *parts]
    legacy = content.get("toolInvocations")
    if isinstance(legacy, list) and "tool-invocation" not in kinds:
        parts = [*parts, *({"type": "tool-invocation", "toolInvocation": call} for call in legacy)]
    if not parts and isinstance(content.get("content"), str):
        return [{"type": "text", "text": content["content"]}]
    return parts


def shown_part(n: int, part: Mapping[str, Any], *, is_open: bool = False) -> Shown:
    """One stored part as a page shows it."""
    kind = part.get("type")
    if kind == "text" and isinstance(part.get("text"), str):
        body = cut(part["text"])
        return Shown(n=n, kind="text", body=body, size=body.size)
    if kind == "reasoning":
        return _reasoning(n, part)
    if kind == "tool-invocation" and isinstance(part.get("toolInvocation"), dict):
        return _call(n, part, part["toolInvocation"], is_open=is_open)
    if kind == "file":
        return _file(n, part)
    if kind == "step-start":
        model = part.get("model")
        return Shown(n=n, kind="step", title=model if isinstance(model, str) else "")
    if kind == "source" and isinstance(part.get("source"), dict):
        source = part["source"]
        return Shown(
            n=n, kind="source", title=_label(source.get("title") or source.get("url")), link=_web(source.get("url"))
        )
    if kind == UNREADABLE and isinstance(part.get("data"), dict):
        return Shown(
            n=n,
            kind="unreadable",
            title=_label(part["data"].get("reason")),
            body=cut(str(part["data"].get("text", ""))),
        )
    body = cut(write_json(part))
    return Shown(n=n, kind="other", title=_label(kind) or "part without a type", body=body, size=body.size)


def whole_part(part: Mapping[str, Any], what: str) -> tuple[bytes, str]:
    """All of a part and the ending of a file for it: its text, a call's `result` or `args`, or a file's own bytes."""
    invocation = part.get("toolInvocation")
    if part.get("type") == "tool-invocation" and isinstance(invocation, dict) and what in ("args", "result"):
        value = invocation.get("errorText") if invocation.get("state") == "output-error" and what == "result" else None
        return _text_of(invocation.get(what) if value is None else value).encode(), "txt"
    if part.get("type") == "text" and isinstance(part.get("text"), str):
        return part["text"].encode(), "txt"
    if part.get("type") == "reasoning" and what == "text":
        return _reasoning_text(part).encode(), "txt"
    if part.get("type") == "file" and what == "file":
        _, data = _file_data(part)
        decoded = _decoded(data)
        if decoded is not None:
            return decoded, "bin"
    return write_json(part).encode(), "json"


def cut(text: str, limit: int = SHOWN_BYTES) -> Cut:
    """A text's first bytes, never half a character."""
    if len(text) * 4 <= limit:
        return Cut(text, len(text.encode("utf-8", "replace")))
    size = len(text.encode("utf-8", "replace"))
    if size <= limit:
        return Cut(text, size)
    beginning = text[:limit].encode("utf-8", "replace")[:limit].decode("utf-8", "ignore")
    return Cut(beginning, size, size - len(beginning.encode()))


# Kinds


def _reasoning(n: int, part: Mapping[str, Any]) -> Shown:
    details = [detail for detail in part.get("details") or [] if isinstance(detail, dict)]
    hidden = sum(detail.get("type") == "redacted" for detail in details)
    metadata = part.get("providerMetadata")
    spaces = metadata if isinstance(metadata, dict) else {}
    signers = [name for name, options in spaces.items() if isinstance(options, dict) and "signature" in options]
    signed = f"signed by {_label(signers[0])}" if signers else "unsigned"
    if not signers and any(detail.get("signature") for detail in details):
        signed = "signed"
    note = signed if not hidden else f"{signed}, {hidden} hidden by the provider"
    body = cut(_reasoning_text(part))
    return Shown(n=n, kind="reasoning", note=note, body=body, size=body.size)


def _reasoning_text(part: Mapping[str, Any]) -> str:
    text = part.get("reasoning")
    if isinstance(text, str) and text:
        return text
    details = [detail for detail in part.get("details") or [] if isinstance(detail, dict)]
    return "".join(detail["text"] for detail in details if isinstance(detail.get("text"), str))


def _call(n: int, part: Mapping[str, Any], invocation: Mapping[str, Any], *, is_open: bool) -> Shown:
    state = invocation.get("state")
    if state == "call":
        word, mark = ("waits for its result", "live") if is_open else ("no result recorded", "warn")
    else:
        word, mark = _STATES.get(str(state), (f"state {_label(state)}", "warn"))
    approval = invocation.get("approval")
    reason = _label(approval.get("reason")) if isinstance(approval, dict) else ""
    result: Cut | None = None
    note = ""
    if state == "output-error":
        result = cut(_text_of(invocation.get("errorText") or ""))
    elif "result" in invocation:
        result = cut(_text_of(invocation["result"]))
    elif state == "output-denied":
        note = reason or "Nobody said why."
    elif state == "approval-requested":
        note = "The tool runs once somebody has agreed."
    elif state == "approval-responded":
        note = reason or "Nothing came back yet."
    else:
        note = "Nothing came back. The tool may still have acted: look there before it runs again."
    arguments = cut(_text_of(invocation.get("args", {})))
    return Shown(
        n=n,
        kind="call",
        title=_label(invocation.get("toolName")) or "tool without a name",
        call_id=_label(invocation.get("toolCallId"), 300),
        note="run by the provider" if part.get("providerExecuted") else "",
        state=word,
        mark=mark,  # type: ignore[arg-type]  # the tables above hold only marks
        body=arguments,
        result=result,
        result_note=note,
        size=arguments.size + (result.size if result else 0),
    )


def _file(n: int, part: Mapping[str, Any]) -> Shown:
    media_type, data = _file_data(part)
    name = _label(part.get("filename")) or media_type or "file"
    if web := _web(data):
        return Shown(n=n, kind="file", title=name, note=f"{media_type or 'file'}, kept elsewhere", link=web)
    payload = data.partition(",")[2] if _DATA_URI.match(data) else data
    size = len(payload) * 3 // 4 if _BASE64.fullmatch(payload[:1000]) else len(payload)
    image = ""
    if media_type in _IMAGE_TYPES and len(payload) <= INLINE_IMAGE_BYTES and _decoded(data) is not None:
        image = f"data:{media_type};base64,{''.join(payload.split())}"
    return Shown(n=n, kind="file", title=name, note=media_type, size=size, image=image)


def _file_data(part: Mapping[str, Any]) -> tuple[str, str]:
    """Media type and data of a file part, in either spelling."""
    data = part.get("data") or part.get("url")
    data = data if isinstance(data, str) else ""
    media_type = part.get("mimeType") or part.get("mediaType")
    if not isinstance(media_type, str):
        found = _DATA_URI.match(data)
        media_type = found[1] if found else ""
    return _label(media_type).lower(), data


def _decoded(data: str) -> bytes | None:
    """The bytes of base64 or of a data URI with base64; None for anything else."""
    payload = data.partition(",")[2] if _DATA_URI.match(data) else data
    try:
        return base64.b64decode("".join(payload.split()), validate=True)
    except (binascii.Error, ValueError):
        return None


def _unloaded(n: int, entry: list[Any]) -> Shown:
    kind, size = str(entry[0]), int(entry[1])
    return Shown(n=n, kind="other", title=kind, size=size, body=Cut("", size, size))


def _foot(summary: list[list[Any]]) -> str:
    """What a message holds, in words: `text 132 B, 2 tool calls 4.1 KB`."""
    totals: dict[str, tuple[int, int]] = {}
    for kind, size in summary:
        if kind != "step-start":
            number, total = totals.get(kind, (0, 0))
            totals[kind] = (number + 1, total + size)
    names = {"tool-invocation": "tool call"}
    words = []
    for kind, (number, total) in totals.items():
        name = names.get(kind, kind)
        words.append(f"{name} {in_words(total)}" if number == 1 else f"{number} × {name} {in_words(total)}")
    return ", ".join(words) or "empty"


def _text_of(value: Any) -> str:
    if isinstance(value, str):
        return value
    compact = write_json(value)
    # Only a beginning is shown of a large one, so its lines are not worth the time.
    return compact if len(compact) > LAID_OUT_CHARACTERS else pretty(value)


def _label(value: Any, limit: int = 120) -> str:
    """A short foreign text for a heading."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else write_json(value)
    return text if len(text) <= limit else f"{text[:limit]}…"


def _web(value: Any) -> str:
    return value if isinstance(value, str) and value.startswith(("https://", "http://")) and len(value) <= 2000 else ""
