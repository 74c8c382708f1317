"""Images within the limits of a target: how large, how heavy, how many."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from memory.messages.prompt import File, Message, Output, Part, Prompt, Text, ToolResult, is_url
from memory.processors.changes import Change, spot_of
from memory.processors.compat.passes.facts import Facts, tail_of
from memory.processors.compat.passes.media import is_media, media_of
from memory.processors.compat.passes.pixels import image_size
from memory.processors.compat.passes.scaling import Scaled, can_scale, scaled
from memory.profiles.profile import Profile


def may_hold_big_images(profile: Profile, facts: Facts) -> bool:
    return profile.images is not None and (facts.has_file or facts.has_media_result)


class _Seen(Struct):
    """The images of a prompt so far, and how many an earlier request of the thread held."""

    count: int
    before: int
    number: int = 0


def fit_images(prompt: Prompt, profile: Profile, _: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    """Images that are too large or heavy are scaled down, where Pillow is installed; else they become a note.

    Where there are too many, the oldest become notes. Thread and stored bytes stay.
    """
    limits = profile.images
    assert limits is not None
    tail = tail_of(prompt)
    seen = _Seen(_count(prompt.messages), _count(prompt.messages[:tail]))
    changes: list[Change] = []

    def fitted(message: Message, part: Part, file: File) -> Scaled | str | None:
        """What stands for an image; None: itself."""
        if not file.media_type.startswith("image/"):
            return None
        seen.number += 1
        surplus = seen.count - limits.most if limits.most else 0
        if seen.number <= surplus:
            is_new = seen.number <= seen.before and seen.number > seen.before - limits.most
            size = None if is_url(file.data) else image_size(file.data)
            told = _note(file, size)
            reason = f"{profile.title} takes {limits.most} images in a request; the oldest are told. They stay stored."
            before = {"image": list(size or ())}
            spot = spot_of(message, part)
            changes.append(Change(rule, reason, "content lost", spot, before, told, breaks_prefix=is_new))
            return told
        size = None if is_url(file.data) else image_size(file.data)
        if size is None:
            return None
        longest = limits.longest_among(seen.count)
        weight = len(file.data.rpartition(",")[2]) * 3 // 4
        if max(size) <= longest and weight <= limits.most_bytes:
            return None
        was_taken = max(size) <= limits.longest_among(seen.before) and weight <= limits.most_bytes
        is_new = was_taken and seen.number <= seen.before
        made = scaled(file.data, longest=longest, most_bytes=limits.most_bytes)
        what = (
            f"images of {longest:,} pixels a side" if max(size) > longest else f"{limits.most_bytes:,} bytes an image"
        )
        told = _note(file, size)
        why = "It is scaled down." if made else "It could not be scaled down."
        if made is None and not can_scale():
            why = "It could not be scaled down without Pillow, the extra images."
        reason = f"{profile.title} takes {what} here. {why} It stays in the thread."
        change = Change(
            rule,
            reason,
            "reshaped" if made else "content lost",
            spot_of(message, part),
            {"image": list(size), "bytes": weight},
            {"image": list(made.size), "bytes": len(made.data) * 3 // 4} if made else told,
            breaks_prefix=is_new,
        )
        changes.append(change)
        return made or told

    def change(message: Message, part: Part) -> Part:
        if isinstance(part, File):
            new = fitted(message, part, part)
            if new is None:
                return part
            if isinstance(new, str):
                return Text(new, None, part.at, part.of)
            return replace(part, data=new.data, media_type=new.media_type)
        if not isinstance(part, ToolResult) or not media_of(part):
            return part
        items = []
        for item in part.output.value:
            made = fitted(message, part, File(str(item.get("mediaType")), item["data"])) if is_media(item) else None
            if made is None:
                items.append(item)
            elif isinstance(made, str):
                items.append({"type": "text", "text": made})
            else:
                items.append({**item, "data": made.data, "mediaType": made.media_type})
        is_same = all(a is b for a, b in zip(items, part.output.value, strict=True))
        return part if is_same else replace(part, output=Output("content", items))

    return prompt.map_parts(change), changes


def _note(file: File, size: tuple[int, int] | None) -> str:
    told = f", {size[0]} x {size[1]} pixels" if size else ""
    return f"[image: {file.filename or file.media_type}{told}]"


def _count(messages: tuple[Message, ...]) -> int:
    return sum(file.media_type.startswith("image/") for message in messages for file in _files(message))


def _files(message: Message) -> Iterator[File]:
    for part in message.parts:
        if isinstance(part, File):
            yield part
        elif isinstance(part, ToolResult):
            yield from media_of(part)
