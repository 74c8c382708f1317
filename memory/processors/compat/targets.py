"""Which targets a rule is for, and by which facts: asked of the passes themselves, so that no page differs from them.

A fault concerns a profile when its pass would act on a history that holds every fault at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from types import FunctionType, MethodType
from typing import Any, cast

from msgspec import Struct

from memory.messages.prompt import File, Message, Options, Origin, Prompt, Reasoning, Text, ToolCall
from memory.processors.changes import Change
from memory.processors.compat.catalogue import RULES, waits_for_error
from memory.processors.compat.faults import faults_of
from memory.processors.compat.passes import CATALOGUE, Step, fields, overflow
from memory.processors.compat.passes.call import Call
from memory.processors.compat.passes.facts import Facts
from memory.processors.compat.repairs import LASTING
from memory.profiles import PROFILES, UNKNOWN
from memory.profiles.profile import Fact, Profile

STEP_NAMES = (
    "Unpack",
    "Reasoning",
    "Unknown parts",
    "Pairs",
    "Ids, names",
    "Media",
    "Empty text",
    "Roles",
    "Cache marks",
    "Request",
)
"""The ten steps, in order; a step's number counts from 1."""

_STEPS: dict[str, Step] = {step.fault: step for step in CATALOGUE}


class Concern(Struct, frozen=True):
    """A fault at a target: the rule that repairs it there, and what its pass reads of the profile."""

    profile: Profile
    fault: str
    rule: str
    reads: tuple[str, ...]


def step_of(rule: str) -> int | None:
    """The number of the step a rule acts in; None for one that repairs the thread itself, and for one's own."""
    if rule in LASTING:
        return None
    return next((_STEPS[fault].number for fault in faults_of(rule) if fault in _STEPS), None)


def touches(rule: str) -> str:
    """What a rule of the catalogue changes, and when."""
    if step_of(rule) is None:
        return "the thread, for good: a new version with its reason and a way back"
    if RULES[rule].acts == "after its error":
        return "the next request of the run, once the provider’s error asked for it; never the thread"
    return "the request only, never the thread"


@cache
def facts_for(rule: str) -> tuple[Fact, ...]:
    """Where a rule is known from, newest first, each source once."""
    found = {fact.source: fact for profile in PROFILES for fact in profile.facts if fact.rule == rule}
    return tuple(sorted(found.values(), key=lambda fact: fact.seen_on, reverse=True))


@cache
def concerns() -> tuple[Concern, ...]:
    """Every fault of every profile that its passes would repair, in the order of the profiles and of the passes.

    The last profile is that of every provider without one of its own.
    """
    return tuple(_concerns())


def targets_of(rule: str) -> list[Concern]:
    """The targets a rule is for, in the order of the profiles."""
    faults = faults_of(rule)
    found = [each for each in concerns() if each.rule == rule]
    if found or rule not in RULES:
        return found
    # A rule that only other words of a fault lead to: the fault's targets of its own provider.
    return [each for each in concerns() if each.fault in faults and each.profile.provider == RULES[rule].provider]


def _concerns() -> Iterator[Concern]:
    for profile in (*PROFILES, UNKNOWN):
        for step in CATALOGUE:
            reads = _reads(step, profile)
            if reads is not None:
                yield Concern(profile, step.fault, profile.rule(step.fault), reads)


def _reads(step: Step, profile: Profile) -> tuple[str, ...] | None:
    """The facts a pass goes by at a target; None where it would never act there."""
    if waits_for_error(profile.rule(step.fault)):
        # Nothing in a history tells whether its error will come: it concerns those whose error is known, or anybody's.
        return () if step.fault in profile.rules or step.fault == overflow.FAULT else None
    for settings in _SETTINGS:
        watched = _Watched(profile)
        target, facts = cast(Profile, watched), _all_facts(settings)
        if not step.may_act(target, facts):
            continue
        if watched.read or _minds(step.run(_everything(), target, facts, profile.rule(step.fault))[1]):
            return tuple(name for name in watched.read if name not in _NAMES)
        # Its test looks at the history alone, and the pass itself found nothing that the target minds.
    # A host without a list of keys minds those that its error names.
    return () if step.fault == fields.FAULT and step.fault in profile.rules else None


def _minds(changes: Sequence[Change]) -> bool:
    return any(change.severity != "cosmetic" for change in changes)


class _Watched:
    """A profile that notes what is asked of it."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.read: dict[str, None] = {}

    def __getattr__(self, name: str) -> Any:
        shared = getattr(Profile, name, None)
        if isinstance(shared, FunctionType):
            return MethodType(shared, self)
        self.read[name] = None
        return getattr(self.profile, name)


_NAMES = ("rules", "provider", "protocol", "namespace", "title")
"""What a profile is called: no fact about what it takes."""
_ODD_NAMES = ("", "functions.search:0", "1. ä" * 100, "call_1")
_SETTINGS: tuple[dict[str, Any], ...] = (
    {},
    {"thinking": {"type": "enabled", "budget_tokens": 1024}},
    {"previous_response_id": "resp_1"},
)


def _all_facts(settings: Mapping[str, Any]) -> Facts:
    flags: dict[str, Any] = {name: True for name, default in zip(*_defaults(), strict=True) if default is False}
    names = dict.fromkeys(_ODD_NAMES)
    by: set[Origin | None] = {Origin("somebody-else")}
    call = Call("any-model", settings)
    return Facts(names, dict(names), **flags, reasoners=by, option_keys=_Every(["role"]), cache_markers=1000, call=call)


class _Every(set[str]):
    """A set of all keys there are."""

    def __contains__(self, key: object) -> bool:
        return True

    def isdisjoint(self, other: Iterable[object]) -> bool:
        return not any(True for _ in other)


def _defaults() -> tuple[tuple[str, ...], tuple[Any, ...]]:
    names = Facts.__struct_fields__
    defaults = Facts.__struct_defaults__
    return names[len(names) - len(defaults) :], defaults


@cache
def _everything() -> Prompt:
    """A history for the passes whose tests do not look at the profile."""
    block: Options = {"elsewhere": {"block": {"type": "odd"}}}
    between: Options = {"elsewhere": {"role": "system"}}
    hosted = ToolCall("srv_1", "web_search", {}, provider_executed=True)
    return Prompt(
        (
            Message(
                "user", (Text("<system-reminder>Hi</system-reminder> \ud83d"), File("image/*", "https://x.example/a"))
            ),
            Message("user", (Text("Told in between."),), between),
            Message("user", (File("application/x-odd", "AAAA"), File("image/jpg", "/9j/AAAA"), Text("?"))),
            Message("assistant", (Reasoning("Hm."), Text("Seen.", block), hosted), origin=Origin("elsewhere")),
        )
    )
