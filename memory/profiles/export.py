"""All facts as one JSON file, and its schema: `python -m memory.profiles.export [--schema] > docs/facts.json`.

For whoever wants to know what providers take without running any of this. A fact stands there where there is evidence
for it, or where a profile says more than is known of a stranger; `unknown` holds what is taken for granted of one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from memory.profiles import PROFILES, UNKNOWN
from memory.profiles.profile import Fact, Profile

FACTS: dict[str, tuple[str, str]] = {
    "tool_ids": ("tool-id", "which ids of tool calls are taken"),
    "tool_names": ("tool-name", "which names of tools are taken"),
    "reasoning": ("reasoning", "what reasoning goes back: keep all, drop all, native (sealed here) or own"),
    "seals": ("foreign-signature", "keys that show who made a reasoning part"),
    "signers": ("foreign-signature", "providers whose seals are taken; none: this one's alone"),
    "seals_by_model": ("foreign-signature", "whether a seal is good for the model that set it only"),
    "namespace": ("reasoning", "the key under which what is this provider's own is kept"),
    "reads_sealed": ("reasoning", "whether reasoning may be sealed data without a text"),
    "seal_prefix": ("foreign-signature", "how sealed reasoning begins"),
    "kept_under": ("unknown-field", "the namespace of what the protocol module keeps, where it is another one"),
    "also_under": ("unknown-field", "the namespace that is read where that one says nothing"),
    "reads_blocks": ("foreign-block", "whether it may read blocks of its protocol that the module does not know"),
    "further": ("unknown-field", "keys taken beside those of the protocol, by what holds them"),
    "further_forms": (
        "unknown-field",
        "what such keys may say: one of these words, an object {}, a list [], a number 0",
    ),
    "null_fields": ("null-field", "whether a key of a block may be null"),
    "message_names": ("message-name", "which names of speakers are taken"),
    "developer_role": ("developer-role", "whether there is a role developer"),
    "listed_system": ("content-string", "whether a system message may hold a list of texts"),
    "system_after_user": ("system-turn", "whether a system message between turns has to stand behind one of the user"),
    "thinks_alone": ("empty-message", "whether an assistant message may hold reasoning and nothing else"),
    "empty_result": ("empty-result", "what stands for a result that says nothing"),
    "signs_parts": ("part-signature", "whether thought signatures of parts are checked"),
    "checks_item_ids": ("item-ids", "whether item ids have this provider's form and are known to it alone"),
    "hosted_ids": ("hosted-tool", "pattern of the ids of calls that the provider ran itself"),
    "hosted_call_marks": ("hosted-tool", "what such a call has to say of itself to go back"),
    "hosted_result_marks": ("hosted-tool", "what its result has to say of itself"),
    "urls_in_results": ("file", "whether a result may hold files by URL"),
    "marks_reasoning": ("cache-markers", "whether reasoning may carry a cache marker"),
    "reasoning_filler": ("reasoning-required", "what stands for missing reasoning of a turn with calls"),
    "thinking_leads": ("thinking-leads", "whether thinking has to begin the open tool loop when it is on"),
    "final_thinking": ("final-thinking", "whether a request with thinking off may end with thinking"),
    "signs_calls": ("call-signature", "whether the first call of a step carries a thought signature"),
    "item_ids": ("item-ids", "whether parts carry ids of items that the server may know"),
    "input_object": ("input-object", "whether arguments of calls have to be JSON objects"),
    "unique_ids": ("duplicate-id", "where a call id may stand only once"),
    "files_inline": ("file", "media types taken as base64, as globs"),
    "files_by_url": ("file", "media types taken by URL, as globs"),
    "url_schemes": ("file", "which URLs are taken; none: all"),
    "assistant_files": ("file", "whether an assistant message may hold files"),
    "exact_types": ("media-type", "whether media types are checked"),
    "images": ("image-size", "how large images may be, in pixels a side and bytes, and how many there may be"),
    "plain_text_files": ("file", "whether a plain text file is sent as its text"),
    "unique_documents": ("document-name", "whether the names of documents have to differ"),
    "text_beside_documents": ("document-text", "whether a message with a document has to hold a text"),
    "media_in_results": ("media-in-result", "whether a tool result may hold images"),
    "hosts_tools": ("hosted-tool", "whether a history may hold calls that the provider ran itself"),
    "blank_text": ("blank-text", "what becomes of texts of white space"),
    "break_after_file": ("blank-text", "whether a text of one line break is taken behind a file"),
    "pending_call": ("pending-call", "what becomes of calls without an outcome"),
    "unpaired": ("unpaired", "what becomes of calls and results that do not meet"),
    "system_between": ("system-turn", "whether a system message may stand between the turns"),
    "drops_empty": ("empty-message", "roles whose messages are refused without content"),
    "merge_roles": ("role-order", "roles whose neighbouring messages are refused"),
    "bridge_after_tool": ("user-after-tool", "whether the assistant has to speak between a result and the user"),
    "last_user": ("last-user", "where a request may not end with the assistant"),
    "trims_last_text": ("trailing-space", "whether a final assistant text may not end in white space"),
    "cache_markers": ("cache-markers", "how many cache markers are taken; 0: no limit"),
    "declares_called_tools": ("tools-declared", "whether tools have to be declared where the history calls some"),
    "reminder_tags": ("reminder-tags", "whether reminder tags pass the content filter"),
    "first_user": ("first-user", "what becomes of a history that begins with the assistant"),
}
"""Every fact of a profile, the fault it is about, and what it says."""
BY_ERROR = "mended_after_error"
"""Fact of a rule that no field of a profile turns on: only the provider's error tells that it is wanted."""
OF_THE_PROTOCOL = "the form of the protocol"
"""Source of what no report is needed for."""


def facts() -> Iterator[dict[str, Any]]:
    """Each fact of each profile, in the order in which profiles are looked through: the first that fits counts."""
    for profile in PROFILES:
        known = {fact.rule: fact for fact in profile.facts}
        for name, (fault, _) in FACTS.items():
            value, rule = getattr(profile, name), profile.rule(fault)
            fact = known.get(rule)
            if fact is not None or value != getattr(UNKNOWN, name):
                yield _exported(profile, name, value, rule, fact)
        told = {profile.rule(fault) for fault, _ in FACTS.values()}
        for rule, fact in known.items():
            if rule not in told:
                yield _exported(profile, BY_ERROR, True, rule, fact)


def _exported(profile: Profile, name: str, value: Any, rule: str, fact: Fact | None) -> dict[str, Any]:
    return {
        "profile": profile.id,
        "provider": profile.provider,
        "protocol": profile.protocol,
        "models": list(profile.models),
        "fact": name,
        "value": msgspec.to_builtins(value),
        "rule": rule,
        "source": fact.source if fact else OF_THE_PROTOCOL,
        "seen_on": fact.seen_on if fact else None,
    }


def document() -> str:
    """The file: one fact a line, so that a change shows as one."""
    unknown = {name: msgspec.to_builtins(getattr(UNKNOWN, name)) for name in FACTS}
    lines = ",\n    ".join(_line(fact) for fact in facts())
    return f'{{\n  "unknown": {_line(unknown)},\n  "facts": [\n    {lines}\n  ]\n}}\n'


def schema() -> str:
    """The JSON Schema of the file: which facts there are, what each says, and what its value may be."""
    (_,), shapes = msgspec.json.schema_components([Profile], ref_template="#/$defs/{name}")
    values = shapes.pop("Profile")["properties"]
    for name, (_, words) in FACTS.items():
        value = {key: item for key, item in values[name].items() if key != "default"}
        shapes[name] = {"description": f"{words[0].upper()}{words[1:]}.", **value}
    for shape in ("IdFormat", "ImageLimits"):
        shapes[shape] = _strict(shapes[shape]["properties"])
    del shapes["Fact"]
    text = {"type": "string", "minLength": 1}
    of_fact = [
        {"properties": {"fact": {"const": name}, "value": {"$ref": f"#/$defs/{name}"}}, "required": ["fact", "value"]}
        for name in (*FACTS, BY_ERROR)
    ]
    shapes[BY_ERROR] = {"description": "The fault is mended once the provider's error names it.", "const": True}
    properties = {
        "profile": text,
        "provider": text,
        "protocol": text,
        "models": {"description": "Globs on model ids.", "type": "array", "items": text, "minItems": 1},
        "fact": {"enum": [*FACTS, BY_ERROR]},
        "value": {},
        "rule": {"description": "The rule that mends what goes against the fact.", **text},
        "source": {"description": "A report, a document, or the form of the protocol.", **text},
        "seen_on": {
            "description": "The day it was last seen to hold.",
            "anyOf": [{"type": "string", "format": "date"}, {"type": "null"}],
        },
    }
    granted = {name: {"$ref": f"#/$defs/{name}"} for name in FACTS}
    whole = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What providers take in a conversation history",
        "description": "The facts of a provider's first profile whose globs match a model id hold for that model.",
        **_strict(
            {
                "unknown": {"description": "What is taken for granted of a stranger.", **_strict(granted)},
                "facts": {"type": "array", "items": {**_strict(properties), "oneOf": of_fact}},
            }
        ),
        "$defs": shapes,
    }
    return msgspec.json.format(msgspec.json.encode(whole), indent=2).decode() + "\n"


def _strict(properties: dict[str, Any]) -> dict[str, Any]:
    """The schema of an object that has all of these properties and no other."""
    bare = {name: {key: item for key, item in one.items() if key != "default"} for name, one in properties.items()}
    return {"type": "object", "properties": bare, "required": list(bare), "additionalProperties": False}


def main(arguments: Sequence[str]) -> None:
    sys.stdout.write(schema() if "--schema" in arguments else document())


def _line(value: dict[str, Any]) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=0).decode()


if __name__ == "__main__":
    main(sys.argv[1:])
