"""Files a target can't take, and media inside tool results where it takes text only."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

from msgspec.structs import replace

from memory.messages.prompt import File, Message, Output, Part, Prompt, Text, ToolResult
from memory.processors.changes import Change, spot_of
from memory.processors.compat.passes.facts import Facts
from memory.profiles.profile import Profile


def has_files(_: Profile, facts: Facts) -> bool:
    return facts.has_file


def has_media_results(profile: Profile, facts: Facts) -> bool:
    return facts.has_media_result and not profile.media_in_results


def note_refused_files(prompt: Prompt, profile: Profile, _: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    """A file of a type or form the target has no place for becomes a text that names it."""
    changes: list[Change] = []

    def change(message: Message, part: Part) -> Part:
        if not isinstance(part, File) or _takes(profile, part.media_type, part.data):
            return part
        form = "by URL" if _is_url(part.data) else "inline"
        name = part.filename or (part.data if _is_url(part.data) else part.media_type)
        note = f"[file: {name}]"
        reason = f"{profile.title} takes no file of type {part.media_type} {form}. It stays in the thread."
        before = {"file": part.media_type, "name": part.filename or ""}
        changes.append(Change(rule, reason, "content lost", spot_of(message, part), before, note))
        return Text(note, None, part.at)

    return prompt.map_parts(change, roles=("user", "assistant")), changes


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
            files = _media_of(part) if isinstance(part, ToolResult) else []
            if not isinstance(part, ToolResult) or not files:
                parts.append(part)
                continue
            reason = f"{profile.title} takes text only in a tool result; the media follow in a user message."
            kinds = [file.media_type for file in files]
            changes.append(Change(rule, reason, "reshaped", spot_of(message, part), kinds, "moved behind the results"))
            parts.append(replace(part, output=_without_media(part.output)))
            moved += [Text(f"From the result of {part.name}:"), *files]
        same = all(a is b for a, b in zip(parts, message.parts, strict=True))
        out.append(message if same else replace(message, content=tuple(parts)))
    flush()
    return prompt.with_messages(out), changes


def _is_url(data: str) -> bool:
    return "://" in data[:40] and not data.startswith("data:")


def _takes(profile: Profile, media_type: str, data: str) -> bool:
    patterns: Sequence[str] = profile.files_by_url if _is_url(data) else profile.files_inline
    return any(fnmatchcase(media_type, pattern) for pattern in patterns)


def _media_of(result: ToolResult) -> list[File]:
    if result.output.type != "content" or not isinstance(result.output.value, list):
        return []
    return [
        File(str(item.get("mediaType") or "image/unknown"), item["data"], None, None, result.at)
        for item in result.output.value
        if _is_media(item)
    ]


def _is_media(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type") == "media" and isinstance(item.get("data"), str)


def _without_media(output: Output) -> Output:
    kept = [item for item in output.value if not _is_media(item)]
    return Output("content", kept) if kept else Output("text", "(see the next user message)")
