"""The passes, in order. Each is pure, idempotent and gives back the same prompt when nothing changes.

A step names the fault it repairs; the profile says which rule id that is for a target. Facts come from one scan
before the first pass: passes only take away or rename what they name, so the facts stay upper bounds for the rest.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from memory.messages.prompt import Prompt
from memory.processors.changes import Change
from memory.processors.compat.passes import (
    arguments,
    characters,
    documents,
    duplicates,
    fields,
    first,
    hosted,
    ids,
    images,
    media,
    overflow,
    pairs,
    reasoning,
    roles,
    seals,
    state,
    system,
    tags,
    texts,
    thinking,
    whole,
)
from memory.processors.compat.passes.facts import Facts
from memory.profiles.profile import Profile

Pass = Callable[[Prompt, Profile, Facts, str], tuple[Prompt, list[Change]]]


class Step(Struct, frozen=True):
    """One fault, the pass that repairs it, and a cheap test whether a prompt can have it for this target."""

    number: int
    fault: str
    run: Pass
    may_act: Callable[[Profile, Facts], bool]
    keeps_places: bool = False
    """Whether it leaves every part in its message, as far as it leaves it."""


_OVERFLOW = Step(1, overflow.FAULT, overflow.drop_oldest_turns, overflow.has_overflowed)
_PREVIOUS = Step(1, "previous-id", state.forget_previous, state.is_lost)
_SERVER_STATE = Step(1, "server-state", state.send_what_follows, state.goes_on)
_SURROGATES = Step(1, "lone-surrogate", characters.mend_surrogates, characters.may_hold_halves)
_NUL = Step(1, "nul-character", characters.replace_nul, characters.needs_error)
_REASONING = Step(2, "reasoning", reasoning.drop_unsigned, reasoning.may_act, keeps_places=True)
_SIGNED_ELSEWHERE = Step(
    2, reasoning.SIGNED_ELSEWHERE, reasoning.drop_signed_elsewhere, reasoning.may_be_signed_elsewhere, keeps_places=True
)
_ITEM_IDS = Step(2, "item-ids", seals.settle_item_ids, seals.may_hold_item_ids)
_FOREIGN_BLOCK = Step(3, "foreign-block", texts.drop_foreign_blocks, texts.has_foreign_blocks)
_FIELDS = Step(3, fields.FAULT, fields.drop_further_keys, fields.may_hold_further)
_NULLS = Step(3, "null-field", fields.drop_nulls, fields.may_hold_nulls)
_NAMES = Step(3, "message-name", fields.mend_names, fields.may_name_speakers)
_HOSTED = Step(3, "hosted-tool", hosted.tell_foreign_calls, hosted.has_hosted)
_INPUT = Step(3, "input-object", arguments.make_objects, arguments.may_have_bad_input)
_DUPLICATE = Step(4, "duplicate-id", duplicates.part_repeated_ids, duplicates.may_repeat_ids)
_PENDING = Step(4, "pending-call", pairs.settle_pending_calls, pairs.may_settle)
_UNPAIRED = Step(4, "unpaired", pairs.settle_unpaired, pairs.may_be_unpaired)
_TOOL_ID = Step(5, "tool-id", ids.rename_tool_ids, ids.has_bad_ids, keeps_places=True)
_TOOL_NAME = Step(5, "tool-name", ids.rename_tools, ids.has_bad_names, keeps_places=True)
_PART_SIGNATURE = Step(5, "part-signature", seals.drop_foreign_signatures, seals.may_hold_signatures)
_CALL_SIGNATURE = Step(5, "call-signature", seals.sign_first_calls, seals.needs_call_signature)
_MEDIA_TYPE = Step(6, "media-type", media.correct_types, media.has_files)
_MEDIA_RESULT = Step(6, "media-in-result", media.move_media_out_of_results, media.has_media_results)
_PIXELS = Step(6, "image-size", images.fit_images, images.may_hold_big_images)
_FILE = Step(6, "file", media.note_refused_files, media.has_files)
_DOCUMENT_NAME = Step(6, "document-name", documents.part_names, documents.may_repeat_names)
_EMPTY_RESULT = Step(7, "empty-result", texts.say_empty_results, texts.may_hold_empty_result)
_BLANK_TEXT = Step(7, "blank-text", texts.drop_blank, texts.may_have_blank)
_EMPTY_MESSAGE = Step(7, "empty-message", texts.drop_empty, texts.may_be_empty)
_FILL_REASONING = Step(7, "reasoning-required", thinking.fill_reasoning, thinking.may_lack_reasoning)
_DEVELOPER = Step(8, "developer-role", system.name_developers, system.has_developer)
_CONTENT_STRING = Step(8, "content-string", system.join_system_texts, system.has_listed_system)
_SYSTEM_TURN = Step(8, "system-turn", system.settle_system_turns, system.has_system_turn)
_FIRST_USER = Step(8, "first-user", first.begin_with_user, first.begins_wrong)
_BRIDGE = Step(8, "user-after-tool", roles.bridge_tool_to_user, roles.bridges)
_MERGE = Step(8, "role-order", roles.merge_neighbours, roles.merges)
_LAST_USER = Step(8, "last-user", roles.end_with_user, roles.ends_wrong)
_FINAL_THINKING = Step(8, "final-thinking", thinking.strip_final_thinking, thinking.may_end_in_thinking)
_TRAILING = Step(8, "trailing-space", roles.trim_last_text, roles.may_trail)
_TAGS = Step(8, "reminder-tags", tags.settle_tags, tags.may_hold_tags)
_DOCUMENT_TEXT = Step(6, "document-text", documents.set_text, documents.may_lack_text)
_CACHE = Step(9, "cache-markers", whole.limit_cache_markers, whole.marks_too_many)
_TOOLS = Step(10, "tools-declared", whole.declare_called_tools, whole.lacks_tools)
_LEAD = Step(10, "thinking-leads", thinking.switch_thinking_off, thinking.may_not_lead)

CATALOGUE: tuple[Step, ...] = (
    _SURROGATES,
    _NUL,
    _OVERFLOW,
    _PREVIOUS,
    _SERVER_STATE,
    _REASONING,
    _SIGNED_ELSEWHERE,
    _ITEM_IDS,
    _FOREIGN_BLOCK,
    _FIELDS,
    _NULLS,
    _NAMES,
    _HOSTED,
    _INPUT,
    _DUPLICATE,
    _PENDING,
    _UNPAIRED,
    _TOOL_ID,
    _TOOL_NAME,
    _PART_SIGNATURE,
    _CALL_SIGNATURE,
    _MEDIA_TYPE,
    _MEDIA_RESULT,
    _PIXELS,
    _FILE,
    _DOCUMENT_NAME,
    _DOCUMENT_TEXT,
    _BLANK_TEXT,
    _EMPTY_RESULT,
    _EMPTY_MESSAGE,
    _FILL_REASONING,
    _DEVELOPER,
    _SYSTEM_TURN,
    _CONTENT_STRING,
    _FIRST_USER,
    _BRIDGE,
    _MERGE,
    _LAST_USER,
    _FINAL_THINKING,
    _TRAILING,
    _TAGS,
    _CACHE,
    _TOOLS,
    _LEAD,
)
"""In the catalogue's ten steps: what an earlier pass leaves behind, a later one repairs."""

REPAIRS: tuple[Step, ...] = (_BLANK_TEXT, _PENDING, _UNPAIRED, _FIRST_USER, _TOOL_NAME)
"""The five repairs in the order in which the reference makes them as part of its conversion."""
