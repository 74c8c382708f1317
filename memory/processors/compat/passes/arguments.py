"""Arguments of calls that are no JSON object: what the model wrote is kept, in a form every target takes."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from memory.messages.arguments import as_object
from memory.messages.prompt import Message, Options, Part, Prompt, ToolCall
from memory.processors.changes import Change, spot_of
from memory.processors.compat.passes.facts import Facts
from memory.profiles.profile import Profile


def may_have_bad_input(profile: Profile, facts: Facts) -> bool:
    return profile.input_object and facts.has_odd_input


def make_objects(prompt: Prompt, profile: Profile, _: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    """A JSON text is read, nothing becomes `{}`, another value goes under `value`, broken text under `_raw`."""
    changes: list[Change] = []

    def change(message: Message, part: Part) -> Part:
        if not isinstance(part, ToolCall) or isinstance(part.input, Mapping):
            return part
        made = as_object(part.input)
        reason = f"{profile.title} takes a JSON object as the arguments of a call."
        before = part.input if isinstance(part.input, str) else msgspec.json.encode(part.input).decode()
        changes.append(Change(rule, reason, "reshaped", spot_of(message, part), before[:300], made))
        return replace(part, input=made, options=_without_raw_mark(part.options))

    return prompt.map_parts(change, roles=("assistant",), of=frozenset((ToolCall,))), changes


def _without_raw_mark(options: Options | None) -> Options | None:
    if options is None:
        return None
    return {
        name: {key: item for key, item in value.items() if key != "rawArguments"}
        if isinstance(value, Mapping)
        else value
        for name, value in options.items()
    }
