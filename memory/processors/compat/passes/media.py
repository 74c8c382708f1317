"""Files a target can't take, and media inside tool results where it takes text only."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

from msgspec.structs import replace

from memory.messages.prompt import File, Message, Output, Part, Prompt, Text, ToolResult, is_url
from memory.processors.changes import Change, Loss, spot_of
from memory.processors.compat.passes.facts import Facts
from memory.profiles.profile import Profile


def has_files(_: Profile, facts: Facts) -> bool:
    return facts.has_file


def has_media_results(profile: Profile, facts: Facts) -> bool:
    return facts.has_media_result and not profile.media_in_results


_MAGIC = (("/9j/", "image/jpeg"), ("iVBORw0KGgo", "image/png"), ("R0lGOD", "image/gif"), ("UklGR", "image/webp"),
          ("JVBERi0", "application/pdf"))  # fmt: skip
_SPELT = {"image/jpg": "image/jpeg", "image/x-png": "image/png"}


def correct_types(prompt: Prompt, profile: Profile, _: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    """Images under the type that their first bytes show, and known misspellings of types put right."""
    changes: list[Change] = []

    def right(media_type: str, data: str) -> str:
        shown = true_type(media_type, data)
        return _by_ending(data) if shown == "image/*" and profile.exact_types and is_url(data) else shown

    def change(message: Message, part: Part) -> Part:
        if isinstance(part, File):
            before, after = part.media_type, right(part.media_type, part.data)
            new: Part = replace(part, media_type=after)
        elif isinstance(part, ToolResult) and media_of(part):
            items = [
                {**item, "mediaType": right(str(item.get("mediaType") or ""), item["data"])} if is_media(item) else item
                for item in part.output.value
            ]
            new = replace(part, output=Output("content", items))
            before, after = _types(part), _types(new)
        else:
            return part
        if before == after:
            return part
        reason = "The bytes show another type than the one given; they are sent as they are, under the right one."
        changes.append(Change(rule, reason, "same", spot_of(message, part), before, after))
        return new

    return prompt.map_parts(change), changes


def true_type(media_type: str, data: str) -> str:
    """The type of a file by its first bytes, where it is given as an image or not at all; a misspelling put right."""
    if media_type and not media_type.startswith("image/"):
        return media_type
    shown = _SPELT.get(media_type, media_type)
    if is_url(data):
        return shown
    data = data.rpartition(",")[2] if data.startswith("data:") else data
    return next((kind for head, kind in _MAGIC if data.startswith(head)), shown)


def _types(result: ToolResult) -> str:
    return ", ".join(file.media_type for file in media_of(result))


def _by_ending(url: str) -> str:
    path = url.partition("?")[0].lower()
    endings = {".png": "image/png", ".gif": "image/gif", ".webp": "image/webp"}
    return next((kind for ending, kind in endings.items() if path.endswith(ending)), "image/jpeg")


def note_refused_files(prompt: Prompt, profile: Profile, _: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    """A file of a type or form the target has no place for: its text where it is one, else a note that names it."""
    changes: list[Change] = []

    def change(message: Message, part: Part) -> Part:
        if isinstance(part, ToolResult):
            return _noted_result(message, part, profile, rule, changes)
        if not isinstance(part, File):
            return part
        may_stand = message.role == "user" or (message.role == "assistant" and profile.assistant_files)
        if may_stand and _takes(profile, part.media_type, part.data):
            return part
        told, reason, loss = _told(part, profile)
        before = {"file": part.media_type, "name": part.filename or ""}
        changes.append(Change(rule, reason, loss, spot_of(message, part), before, told[:300]))
        return Text(told, None, part.at, part.of)

    return prompt.map_parts(change), changes


_READABLE = ("text/", "application/json", "application/xml", "application/yaml", "application/x-yaml", "image/svg")
_LONGEST_TEXT = 200_000


def _told(file: File, profile: Profile) -> tuple[str, str, Loss]:
    """What is said in place of a file, why, and how much is lost by it."""
    by_url = is_url(file.data)
    name = file.filename or (file.data if by_url else file.media_type)
    form = "by URL" if by_url else "inline"
    reason = f"{profile.title} takes no file of type {file.media_type} {form}."
    if not by_url and file.media_type.startswith(_READABLE):
        text = _text_in(file.data)
        if text is not None and text.strip() and len(text) <= _LONGEST_TEXT:
            return f"[file: {name}]\n{text}", f"{reason} Its text is sent.", "reshaped"
    if not by_url and not _is_base64(file.data):
        reason = f"The data of this file can't be read, and {profile.title} would refuse it."
    return f"[file: {name}]", f"{reason} It stays in the thread.", "content lost"


def _text_in(data: str) -> str | None:
    """The text in base64 or a data URI; None where there is none."""
    try:
        return base64.b64decode(_bare(data), validate=True).decode()
    except (binascii.Error, ValueError):
        return None


def _bare(data: str) -> str:
    return data.partition(",")[2] if data.startswith("data:") else data


def _is_base64(data: str) -> bool:
    try:
        return bool(binascii.a2b_base64(_bare(data), strict_mode=True))
    except (binascii.Error, ValueError):
        return False


def _noted_result(message: Message, part: ToolResult, profile: Profile, rule: str, changes: list[Change]) -> ToolResult:
    refused = {id(file.data): file for file in media_of(part) if not _takes_in_result(profile, file)}
    if not refused:
        return part
    items: list[Any] = []
    for item in part.output.value:
        file = refused.get(id(item["data"])) if is_media(item) else None
        if file is None:
            items.append(item)
            continue
        told, reason, loss = _told(file, profile)
        changes.append(Change(rule, reason, loss, spot_of(message, part), {"file": file.media_type}, told[:300]))
        items.append({"type": "text", "text": told})
    return replace(part, output=Output("content", items))


def move_media_out_of_results(prompt: Prompt, profile: Profile, _: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    """Images of tool results go into a user message behind all results of the turn; their text stays where it is."""
    changes: list[Change] = []
    out: list[Message] = []
    moved: list[Part] = []

    def flush() -> None:
        if moved:
            out.append(Message("user", tuple(moved)))
            moved.clear()

    for message in prompt.messages:
        if message.role != "tool":
            flush()
            out.append(message)
            continue
        parts: list[Part] = []
        for part in message.parts:
            files = media_of(part) if isinstance(part, ToolResult) else []
            if not isinstance(part, ToolResult) or not files:
                parts.append(part)
                continue
            reason = f"{profile.title} takes text only in a tool result; the media follow in a user message."
            kinds = [file.media_type for file in files]
            changes.append(Change(rule, reason, "reshaped", spot_of(message, part), kinds, "moved behind the results"))
            parts.append(replace(part, output=_without_media(part.output)))
            owned = [replace(file, of=part.of or message.id) for file in files]
            moved += [Text(f"From the result of {part.name}:"), *owned]
        same = all(a is b for a, b in zip(parts, message.parts, strict=True))
        out.append(message if same else replace(message, content=tuple(parts)))
    flush()
    return prompt.with_messages(out), changes


def _takes(profile: Profile, media_type: str, data: str) -> bool:
    by_url = is_url(data)
    if by_url and profile.url_schemes and data.partition("://")[0] not in profile.url_schemes:
        return False
    patterns: Sequence[str] = profile.files_by_url if by_url else profile.files_inline
    if not any(fnmatchcase(media_type, pattern) for pattern in patterns):
        return False
    if media_type == "text/plain" and not by_url and profile.plain_text_files:
        return _text_in(data) is not None
    return by_url or _is_base64(data)


def _takes_in_result(profile: Profile, file: File) -> bool:
    if is_url(file.data) and not profile.urls_in_results:
        return False
    return _takes(profile, file.media_type, file.data)


def media_of(result: ToolResult) -> list[File]:
    if result.output.type != "content" or not isinstance(result.output.value, list):
        return []
    return [
        File(str(item.get("mediaType") or ""), item["data"], None, None, result.at)
        for item in result.output.value
        if is_media(item)
    ]


def is_media(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type") == "media" and isinstance(item.get("data"), str)


def _without_media(output: Output) -> Output:
    kept = [item for item in output.value if not is_media(item)]
    return Output("content", kept) if kept else Output("text", "(see the next user message)")
