"""The rules people see: ids, families, words. What a rule does is in the passes and repairs; facts are in profiles."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from memory.errors import InvalidInput
from memory.profiles import PROFILES

Confidence = Literal["documented", "several reports", "single report", "unverified wording"]


class RuleInfo(Struct, frozen=True):
    """One rule. `acts` is when; `family` the reference system's name for it, empty where it has none."""

    id: str
    provider: str
    title: str
    acts: Literal["before the call", "after its error"]
    confidence: Confidence
    why: str
    family: str = ""
    default: Literal["on", "report", "off"] = "on"


_BEFORE: Literal["before the call"] = "before the call"
_AFTER: Literal["after its error"] = "after its error"

_ALL: tuple[RuleInfo, ...] = (
    RuleInfo(
        "anthropic-tool-id-charset",
        "anthropic",
        "Tool call ids hold only letters, digits, _ and -",
        _BEFORE,
        "several reports",
        "Claude refuses a call id with any other character, such as functions.search:0. Call and result get the same "
        "new id in this request; the thread keeps the first one.",
    ),
    RuleInfo(
        "anthropic-tool-id-format",
        "anthropic",
        "Tool call ids are repaired in the thread after Claude refused them",
        _AFTER,
        "several reports",
        "Safety net of anthropic-tool-id-charset: when the request went out with bad ids and was refused, the stored "
        "ids are renamed for good as a new version, and the call is made again.",
        "anthropic-tool-id-format",
    ),
    RuleInfo(
        "anthropic-thinking-signature-missing",
        "anthropic",
        "Unsigned reasoning stays home",
        _BEFORE,
        "several reports",
        "Claude takes only thinking blocks it signed. Reasoning written by others is left out of the request.",
        "anthropic-strip-foreign-reasoning-content",
    ),
    RuleInfo(
        "anthropic-thinking-signature-invalid",
        "anthropic",
        "Reasoning signed by another vendor stays home",
        _BEFORE,
        "several reports",
        "Other vendors speak Anthropic's format and sign under its name; Claude refuses their signatures.",
        "anthropic-strip-foreign-signed-reasoning",
    ),
    RuleInfo(
        "anthropic-thinking-empty",
        "anthropic",
        "Signed thinking with empty text",
        _BEFORE,
        "several reports",
        "A thinking block with a signature but no text is refused in completed turns of unknown or foreign origin.",
        "anthropic-strip-empty-signed-reasoning-content",
    ),
    RuleInfo(
        "anthropic-server-tool-id",
        "anthropic",
        "Tools another provider ran itself",
        _BEFORE,
        "single report",
        "Calls that a provider executed itself mean nothing to another one; the pair is left out.",
        "strip-foreign-provider-executed-tools",
    ),
    RuleInfo(
        "anthropic-tool-result-missing",
        "anthropic",
        "A call without a result gets one that says so",
        _BEFORE,
        "documented",
        "Claude wants a result for every call in the next message. The made-up one is never stored.",
    ),
    RuleInfo(
        "anthropic-tool-result-orphan",
        "anthropic",
        "A result without its call is told as text",
        _BEFORE,
        "several reports",
        "Claude refuses a result whose call is not in the message before it.",
    ),
    RuleInfo(
        "anthropic-empty-text",
        "anthropic",
        "Blank text blocks are left out",
        _BEFORE,
        "several reports",
        "Text blocks must hold more than white space.",
    ),
    RuleInfo(
        "anthropic-first-message-user",
        "anthropic",
        "The user speaks first",
        _BEFORE,
        "several reports",
        "A history that begins with the assistant gets a short user message in front.",
    ),
    RuleInfo(
        "cerebras-reasoning-content",
        "cerebras",
        "No reasoning in the request",
        _BEFORE,
        "documented",
        "Cerebras refuses the key reasoning_content in assistant messages.",
        "cerebras-strip-reasoning-content",
    ),
    RuleInfo(
        "openai-chat-tool-id-length",
        "openai",
        "Tool call ids have 40 characters at most",
        _BEFORE,
        "several reports",
        "A longer id becomes call_ and 24 digits of its hash, in call and result alike.",
    ),
    RuleInfo(
        "openai-chat-tool-name",
        "openai",
        "Tool names hold 64 letters, digits, _ and - at most",
        _BEFORE,
        "several reports",
        "History, declaration and the model's next calls are renamed together and back again.",
    ),
    RuleInfo(
        "openai-chat-foreign-part",
        "openai",
        "No reasoning in the request",
        _BEFORE,
        "several reports",
        "Chat Completions has no place for reasoning: what is not left out here would be ignored there.",
    ),
    RuleInfo(
        "openai-chat-tool-result-missing",
        "openai",
        "A call without a result gets one that says so",
        _BEFORE,
        "several reports",
        "Every tool call wants a tool message directly behind it. The made-up one is never stored.",
    ),
    RuleInfo(
        "openai-chat-tool-result-orphan",
        "openai",
        "A result without its call is told as text",
        _BEFORE,
        "several reports",
        "A tool message needs a tool call before it.",
    ),
    RuleInfo(
        "openai-responses-call-id-length",
        "openai",
        "Call ids have 64 characters at most",
        _BEFORE,
        "several reports",
        "A longer id becomes call_ and 24 digits of its hash, in call and result alike.",
    ),
    RuleInfo(
        "openai-responses-reasoning-foreign",
        "openai",
        "Reasoning without an item id stays home",
        _BEFORE,
        "several reports",
        "Responses takes reasoning only as items it made itself.",
    ),
    RuleInfo(
        "openai-responses-encrypted-content",
        "openai",
        "Reasoning items of another origin stay home",
        _BEFORE,
        "several reports",
        "Reasoning that another provider sealed in this format can't be decrypted.",
    ),
    RuleInfo(
        "openai-responses-reasoning-orphan",
        "openai",
        "Item ids without their reasoning item are taken out after the error",
        _AFTER,
        "several reports",
        "Responses refuses a message item whose reasoning item is gone; without its id the message is accepted.",
        "openai-orphan-item-id",
    ),
    RuleInfo(
        "azure-content-filter",
        "azure",
        "Reminder tags under a name that Azure's filter lets pass",
        _BEFORE,
        "several reports",
        "Azure takes the tag system-reminder for an injection.",
        "azure-system-reminder-transform",
    ),
    RuleInfo(
        "bedrock-reasoning-foreign",
        "bedrock",
        "No reasoning for GPT-OSS on Bedrock",
        _BEFORE,
        "single report",
        "The OpenAI-style endpoint of Bedrock refuses reasoning in the history of these models.",
        "bedrock-mantle-strip-reasoning",
    ),
    RuleInfo(
        "any-foreign-block",
        "any",
        "Blocks only their own provider understands",
        _BEFORE,
        "documented",
        "A block we do not know goes back to the provider that wrote it, and to nobody else; its text is sent.",
    ),
    RuleInfo(
        "openai-chat-image-in-tool",
        "openai",
        "Images of tool results follow in a user message",
        _BEFORE,
        "several reports",
        "A tool message holds text only; newer models accept an image there and can't see it.",
    ),
    RuleInfo(
        "anthropic-role-system",
        "anthropic",
        "System text between the turns is told as the user's",
        _BEFORE,
        "documented",
        "Claude takes system text at the beginning only, except Opus 4.8. In its place it is sent as labelled text.",
    ),
    RuleInfo(
        "any-system-turn",
        "any",
        "System text between the turns is told as the user's",
        _BEFORE,
        "documented",
        "Where a target takes system text at the beginning only, later ones are sent as labelled text in their place.",
    ),
    RuleInfo(
        "any-media-in-result",
        "any",
        "Images of tool results follow in a user message",
        _BEFORE,
        "documented",
        "Chat APIs take text only in a tool message.",
    ),
    RuleInfo(
        "any-file",
        "any",
        "Files the target has no place for are named in text",
        _BEFORE,
        "documented",
        "A file type that the protocol can't carry, or only inline, becomes a note; the file stays in the thread.",
    ),
    RuleInfo(
        "any-hosted-tool",
        "any",
        "Tools another provider ran itself are told as text",
        _BEFORE,
        "documented",
        "The target knows neither the call nor the form of its result.",
    ),
    RuleInfo(
        "any-pending-call",
        "any",
        "A call without a result gets one that says so",
        _BEFORE,
        "documented",
        "Most chat APIs want every call answered. The made-up result is in the request only.",
    ),
    RuleInfo(
        "any-unpaired",
        "any",
        "Calls and results that do not meet",
        _BEFORE,
        "documented",
        "A result without its call is told as text, a call without its result is answered.",
    ),
    RuleInfo(
        "any-blank-text",
        "any",
        "Blank text is left out",
        _BEFORE,
        "documented",
        "White space alone says nothing, and several providers refuse it.",
    ),
    RuleInfo(
        "any-first-user",
        "any",
        "The user speaks first",
        _BEFORE,
        "documented",
        "A history that begins with the assistant gets a user message in front.",
    ),
    RuleInfo(
        "any-tool-id",
        "any",
        "Tool call ids are not empty",
        _BEFORE,
        "documented",
        "An empty id pairs with nothing.",
    ),
    RuleInfo(
        "any-tool-name",
        "any",
        "Tool names hold letters, digits, _ and -",
        _BEFORE,
        "documented",
        "Other characters become _, distinct and reversible within the request.",
    ),
)

_FAULTS: dict[str, tuple[str, str]] = {
    "context-overflow": (
        "Old turns are left out of a request that is too long",
        "Once the target said so, and the agent allows it: the oldest turns go, whole. They stay in the thread.",
    ),
    "previous-id": (
        "The whole history where the previous response is lost",
        "Once the server said that it does not know the response: without its id, with everything before it.",
    ),
    "server-state": (
        "Only what follows, where the server keeps the rest",
        "A request that names the previous response carries what came after it.",
    ),
    "nul-character": (
        "The character U+0000 is replaced after the error",
        "Some hosts keep requests in a database that can't store it. What is stored here never holds it.",
    ),
    "unknown-field": (
        "Keys the target does not know are left out",
        "Other hosts and libraries leave keys of their own; one that an error names goes too, for this run.",
    ),
    "null-field": ("No key is null", "Blocks go back as they came, without their nulls."),
    "message-name": ("Names of speakers in the form the target takes", "Other characters become _."),
    "developer-role": ("The role developer is called system", "Hosts of OpenAI's format know the older name only."),
    "content-string": ("A system message is one text", "The target takes a text there, not a list of them."),
    "document-name": ("Names of documents differ", "A later document of the same name gets -2, -3."),
    "empty-result": ("A result says at least an empty text", "An empty list of content is refused."),
    "lone-surrogate": ("Half characters are mended", "Text cut inside a character is no valid JSON."),
    "reasoning": ("Reasoning of others stays home", "The target takes no reasoning, or only its own."),
    "foreign-signature": ("Reasoning signed by others stays home", "A signature is good where it was made."),
    "item-ids": (
        "Item ids the server does not know are left out",
        "An id that is not stored there, or stands twice, is refused; without it the item is plain input.",
    ),
    "foreign-block": ("Blocks only their own provider understands", "Nobody else can read them; their text is sent."),
    "hosted-tool": ("Tools another provider ran itself are told as text", "The target knows neither call nor result."),
    "input-object": (
        "Arguments of calls are JSON objects",
        "What the model wrote is kept: text that is no object goes into one, nothing becomes an empty one.",
    ),
    "duplicate-id": ("A call id stands once in a message", "Later calls get _2, _3, and their results with them."),
    "pending-call": ("A call without a result gets one that says so", "The made-up one is never stored."),
    "unpaired": (
        "Calls and results that do not meet",
        "Late results move up, a result without its call is told as text, a call without its result is answered.",
    ),
    "tool-id": ("Tool call ids in the form the target takes", "Call and result get the same id in this request."),
    "tool-name": ("Tool names in the form the target takes", "Renamed here and in the model's next calls back again."),
    "call-signature": (
        "A stand-in for a missing thought signature",
        "The first call of a step wants one; the documented stand-in says that there is none.",
    ),
    "part-signature": (
        "Thought signatures of another origin are left out",
        "Only the host that set one can check it; the part stays without it.",
    ),
    "media-type": ("Media types after the bytes", "A wrong type is refused although the picture is good."),
    "media-in-result": ("Images of tool results follow in a user message", "A tool message holds text only."),
    "file": ("Files the target has no place for are named in text", "The file stays in the thread."),
    "image-size": ("Images within the limits", "One that is too big becomes a note of its size."),
    "document-text": ("A text beside every document", "A short one is put where a message holds none."),
    "blank-text": ("Blank text is left out", "White space alone says nothing, and several providers refuse it."),
    "empty-message": ("Messages without content are left out", "Other rules can leave one behind; it comes last."),
    "reasoning-required": (
        "A filler where reasoning is wanted",
        "Turns that called tools must come with their reasoning; where none is stored, a neutral filler stands.",
    ),
    "system-turn": ("System text between the turns is told as the user's", "Labelled, and in its place."),
    "first-user": ("The user speaks first", "A history that begins with the assistant gets a user message in front."),
    "user-after-tool": ("The assistant speaks between result and user", "A short message, in this request only."),
    "role-order": ("Roles alternate", "Neighbours of one role are sent as one message."),
    "last-user": ("The user speaks last", "A history that ends with the assistant gets a short user message."),
    "final-thinking": (
        "No thinking at the end when thinking is off",
        "Where a request ends with the assistant's own words, they may hold thinking only with thinking on.",
    ),
    "trailing-space": ("A final text does not end in white space", "Only the end of the last text is trimmed."),
    "reminder-tags": ("Reminder tags under another name", "A content filter takes them for an injection."),
    "cache-markers": ("Cache markers within the limit", "The oldest go first; their blocks stay."),
    "tools-declared": ("Tools of the history are declared", "By name, where the request declares none."),
    "thinking-leads": (
        "Thinking off where it can't lead",
        "With thinking on, the open tool loop has to begin with the target's own thinking.",
    ),
}
_REACTIVE = {
    "any-context-overflow",
    "any-nul-character",
    "anthropic-role-alternation",
    "azure-developer-role",
    "any-previous-id",
    "openai-responses-previous-id",
    "vllm-role-alternation",
    "vllm-system-first",
}
"""Whether these are wanted depends on a deployment's template: they act once its error asked for them."""
_DOCUMENTED = {
    "anthropic-cache-control-limit", "anthropic-thinking-must-lead", "bedrock-tool-id-pattern", "cohere-empty-message",
    "deepseek-reasoning-required", "gemini-thought-signature-missing", "mistral-tool-id-format",
    "moonshot-reasoning-required",
}  # fmt: skip
_UNVERIFIED = {"azure-developer-role"}
"""The fault is real; the words are those of another host. It acts only when they come."""


def _further() -> Iterator[RuleInfo]:
    """Rules that only profiles name: their words are those of the fault."""
    known = {rule.id for rule in _ALL}
    for fault, (title, why) in _FAULTS.items():
        named = [(rule, p.provider) for p in PROFILES for each, rule in p.rules.items() if each == fault]
        for rule, provider in [*named, (f"any-{fault}", "any")]:
            if rule in known:
                continue
            known.add(rule)
            is_documented = rule in _DOCUMENTED or provider == "any"
            confidence: Confidence = "documented" if is_documented else "several reports"
            if rule in _UNVERIFIED:
                confidence = "unverified wording"
            acts = _AFTER if rule in _REACTIVE else _BEFORE
            yield RuleInfo(rule, provider, title, acts, confidence, why)


_ALL += tuple(_further())
RULES: dict[str, RuleInfo] = {rule.id: rule for rule in _ALL}
FAULT_TITLES: dict[str, str] = {fault: title for fault, (title, _) in _FAULTS.items()}
FAMILIES: dict[str, str] = {rule.id: rule.family for rule in _ALL if rule.family}


def fault_words(fault: str) -> tuple[str, str]:
    """What repairs a fault and why, in words that hold for every provider."""
    return _FAULTS[fault]


def rule_ids(name: str) -> list[str]:
    """The rules a name means: a rule id, or a family with all its rules.

    Raises InvalidInput naming the nearest known name.
    """
    if name in RULES:
        # One family has the name of a rule of its own; the rule stands for it.
        return [name]
    members = [rule.id for rule in _ALL if rule.family == name]
    if members:
        return members
    near = difflib.get_close_matches(name, [*RULES, *FAMILIES.values()], n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise InvalidInput(f"no rule is called {name!r}{hint}", field="rule", code="unknown_rule")


def default_state(rule: str) -> str:
    info = RULES.get(rule)
    return info.default if info else "on"


def waits_for_error(rule: str) -> bool:
    """Whether the rule acts on a request only once an error of the run asked for it."""
    return rule in _REACTIVE
