"""Documents beside text, and under names that differ."""

from __future__ import annotations

import re

from msgspec.structs import replace

from memory.messages.prompt import File, Message, Part, Prompt, Text
from memory.processors.changes import Change, spot_of
from memory.processors.compat.passes.facts import Facts
from memory.profiles.profile import Profile

_SEEN = ("image/", "video/", "audio/")
_BESIDE = "See the document."


def may_lack_text(profile: Profile, facts: Facts) -> bool:
    return profile.text_beside_documents and facts.has_file


def set_text(prompt: Prompt, profile: Profile, _: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    """A short text in every message that holds a document and no text."""
    changes: list[Change] = []
    out: list[Message] = []
    for message in prompt.messages:
        documents = [part for part in message.parts if _is_document(part)]
        if documents and not any(isinstance(part, Text) and part.text.strip() for part in message.parts):
            reason = f"{profile.title} wants a text beside a document."
            changes.append(Change(rule, reason, "reshaped", spot_of(message, documents[0]), None, _BESIDE))
            message = replace(message, content=(Text(_BESIDE), *message.parts))
        out.append(message)
    return prompt.with_messages(out), changes


def may_repeat_names(profile: Profile, facts: Facts) -> bool:
    return profile.unique_documents and facts.has_file


def part_names(prompt: Prompt, profile: Profile, _: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    """Documents whose names come to the same get -2, -3; a later document never renames an earlier one."""
    held: set[str] = set()
    numbers: dict[str, int] = {}
    changes: list[Change] = []

    def change(message: Message, part: Part) -> Part:
        if not isinstance(part, File) or not _is_document(part) or not part.filename:
            return part
        plain = name = _sent_name(part.filename)
        while name in held:
            numbers[plain] = number = numbers.get(plain, 1) + 1
            name = f"{plain}-{number}"
        held.add(name)
        if name == part.filename or (name == plain and plain != _UNNAMED):
            return part
        reason = f"{profile.title} wants the names of documents to differ."
        changes.append(Change(rule, reason, "same", spot_of(message, part), part.filename, name))
        return replace(part, filename=name)

    return prompt.map_parts(change, roles=("user", "assistant")), changes


_UNNAMED = "document"
_REFUSED = re.compile(r"[^a-zA-Z0-9\s()\[\]-]+|\s{2,}")
_LONGEST = 190


def _sent_name(filename: str) -> str:
    """A name in the alphabet of Bedrock, in which two names can become one; the format says what the ending said."""
    stem, dot, _ = filename.rpartition(".")
    said = stem if dot and stem else filename
    return _REFUSED.sub("-", said).strip("- \n\t\r")[:_LONGEST] or _UNNAMED


def _is_document(part: Part) -> bool:
    return isinstance(part, File) and not part.media_type.startswith(_SEEN)
