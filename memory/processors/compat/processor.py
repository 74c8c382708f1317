"""`ProviderHistoryCompat`: the prompt rewritten for its target, and history repaired after a provider's error."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

from msgspec.structs import replace

from memory.errors import InvalidOption, Tripwire
from memory.messages.lists import MessageList
from memory.messages.names import ModelRef
from memory.messages.prompt import (
    Message,
    Origin,
    Prompt,
    Reasoning,
    prompt_from_json,
    prompt_to_json,
    prompt_to_json_like,
)
from memory.messages.stored import StoredMessage, content_of
from memory.messages.typed import origin_of
from memory.processors.base import ProcessAPIErrorArgs, ProcessLLMRequestArgs, PromptResult, Repair, Retry, Switches
from memory.processors.changes import Change, Finding, changes_by_comparison, told_of_cache
from memory.processors.compat import reference
from memory.processors.compat.catalogue import default_state, waits_for_error
from memory.processors.compat.errors import texts_of
from memory.processors.compat.faults import STRICT, known_faults
from memory.processors.compat.passes import CATALOGUE, Step, overflow
from memory.processors.compat.passes.call import Call
from memory.processors.compat.passes.facts import Facts, facts_of
from memory.processors.compat.passes.ids import renames
from memory.processors.compat.repairs import (
    ORPHAN_ITEM_ERRORS,
    TOOL_ID_ERRORS,
    drop_orphan_item_ids,
    rename_bad_tool_ids,
)
from memory.processors.compat.rule import CompatRule, model_ref_of
from memory.profiles import profile_for
from memory.profiles.profile import Profile

log = logging.getLogger(__name__)

_REPAIRS = (
    CompatRule("anthropic-tool-id-format", error_patterns=TOOL_ID_ERRORS, fix=rename_bad_tool_ids),
    CompatRule("openai-responses-reasoning-orphan", error_patterns=ORPHAN_ITEM_ERRORS, fix=drop_orphan_item_ids),
)


_MOST_HALVINGS = 3
_FORCED = "forced"
"""Key of the run's state: faults whose passes an error asked for."""


class ProviderHistoryCompat:
    """Rewrites prompts for their target (nothing is stored) and repairs history after the target's error (stored).

    `rules="catalogue"` runs all passes by the target's profile, `"reference"` exactly the reference's nine rules.
    With `compact_on_overflow` a request that the target calls too long is sent again without its oldest turns.
    `additional_rules` run after the built-in ones, in the given order. Raises InvalidOption naming the option.
    """

    id = "provider-history-compat"
    name = "Provider History Compat"

    def __init__(
        self,
        *,
        additional_rules: Sequence[CompatRule] = (),
        rules: Literal["catalogue", "reference"] = "catalogue",
        compact_on_overflow: bool = False,
    ) -> None:
        if rules not in ("catalogue", "reference"):
            raise InvalidOption(f"rules: expected catalogue or reference, got {rules!r}", field="rules")
        if not isinstance(additional_rules, list | tuple):
            message = f"additional_rules: expected a list of rules, got {additional_rules!r}"
            raise InvalidOption(message, field="additional_rules")
        for i, rule in enumerate(additional_rules):
            if not isinstance(rule, CompatRule):
                place = f"additional_rules[{i}]"
                raise InvalidOption(f"{place}: expected a CompatRule, got {rule!r}", field=place)
        if not isinstance(compact_on_overflow, bool):
            message = f"compact_on_overflow: expected true or false, got {compact_on_overflow!r}"
            raise InvalidOption(message, field="compact_on_overflow")
        self.rules, self.compact_on_overflow = rules, compact_on_overflow
        self.additional_rules = tuple(additional_rules)

    # Before the call

    def process_llm_request(self, args: ProcessLLMRequestArgs) -> PromptResult | None:
        """The rewritten prompt in the kind it was given, or None when there is nothing to change or report."""
        given = args.prompt if isinstance(args.prompt, Prompt) else _read(args.prompt, args.message_list.messages)
        needs: dict[str, Any] = {}
        if self.rules == "reference":
            prompt, changes, findings, names = self._by_reference(given, args)
        else:
            model = model_ref_of(args.model)
            profile = profile_for(model, args.protocol)
            call = _call_of(model, args, args.state.get(_FORCED, ()))
            prompt, changes, findings, names = run_steps(
                CATALOGUE, given, profile, args.switches, tool_names=args.tool_names, call=call
            )
            needs = call.needs
        for rule in self.additional_rules:
            prompt, change = self._by_own_rule(rule, prompt, args, findings)
            changes += change
        if prompt is given and not findings and not names and not needs:
            return None
        same_kind = prompt if isinstance(args.prompt, Prompt) else prompt_to_json_like(prompt, given, args.prompt)
        return PromptResult(prompt=same_kind, changes=changes, findings=findings, tool_names=names, needs=needs)

    def _by_reference(
        self, prompt: Prompt, args: ProcessLLMRequestArgs
    ) -> tuple[Prompt, list[Change], list[Finding], dict[str, str]]:
        changes: list[Change] = []
        findings: list[Finding] = []
        for rule in reference.PROACTIVE:
            state = args.switches.state(rule.rule, default_state(rule.rule))
            if state == "off":
                continue
            new, made = rule.rewrite(prompt, args, rule.rule)
            if state == "report":
                findings += map(_finding, made)
            else:
                prompt, changes = new, changes + made
        return prompt, changes, findings, {}

    def _by_own_rule(
        self, rule: CompatRule, prompt: Prompt, args: ProcessLLMRequestArgs, findings: list[Finding]
    ) -> tuple[Prompt, list[Change]]:
        if rule.apply_to_prompt is None or args.switches.state(rule.name) == "off":
            return prompt, []
        given: Any = prompt if isinstance(args.prompt, Prompt) else prompt_to_json(prompt)
        try:
            made = rule.apply_to_prompt(given, model=model_ref_of(args.model), messages=args.message_list.messages)
            new = prompt if made is None or made is given else _as_prompt(made)
        except Tripwire:
            raise
        except Exception:  # one's own rule must not end the run
            log.exception("rule %s failed while rewriting", rule.name)
            return prompt, []
        if new is prompt:
            return prompt, []
        changes = changes_by_comparison(rule.name, prompt, new)
        if args.switches.state(rule.name) == "report":
            findings += map(_finding, changes)
            return prompt, []
        return new, changes

    # After its error

    def process_api_error(self, args: ProcessAPIErrorArgs) -> Retry | None:
        """A retry with the repaired messages, when a rule knows the error and could change something.

        Each rule acts once: by `rule_counts` where the run loop counts per rule, else only while `retry_count` is 0.
        """
        if args.rule_counts is None and args.retry_count > 0:
            return None
        texts = texts_of(args.error)
        for rule in (*_REPAIRS, *self.additional_rules):
            if rule.fix is None or not rule.matches(texts) or (args.rule_counts or {}).get(rule.name):
                continue
            if args.switches.state(rule.name, default_state(rule.name)) not in ("on", "reactive"):
                continue
            before = args.messages or args.message_list.messages
            fixed = self._fixed(rule.name, rule.fix, before)
            if fixed is None:
                continue
            changed = _take_repair(args.message_list, before, fixed)
            reason = f"{rule.name} knows this error and repaired {_counted(len(changed), 'message')}."
            repair = Repair(rule=rule.name, reason=texts[0][:500], messages=changed)
            return Retry(reason=reason, matched=rule.name, rule=rule.name, repair=repair)
        return self._forced(args, texts) if self.rules == "catalogue" else None

    def _forced(self, args: ProcessAPIErrorArgs, texts: Sequence[str]) -> Retry | None:
        """A retry for which the pass of the rule that knows this error is forced, when that changes the request."""
        model = model_ref_of(args.model)
        profile = profile_for(model, args.protocol)
        prompt = args.message_list.to_prompt()
        before = tuple(args.state.get(_FORCED, ()))
        known = [each for each in known_faults(texts, profile) if not (args.rule_counts or {}).get(each[0])]
        if self.compact_on_overflow and getattr(args.error, "error_class", "") == "context-length":
            known.append((profile.rule(overflow.FAULT), (overflow.FAULT,)))
        for rule, faults in known:
            more = (*before, *(fault for fault in faults if fault not in before or fault == overflow.FAULT))
            if more.count(overflow.FAULT) > _MOST_HALVINGS or more == before:
                continue
            if args.switches.state(rule, default_state(rule)) not in ("on", "reactive"):
                continue
            made = []
            for forced in (before, more):
                call = _call_of(model, args, forced)
                new, *_ = run_steps(CATALOGUE, prompt, profile, args.switches, tool_names=args.tool_names, call=call)
                made.append((new, call.needs))
            if made[0] == made[1]:
                continue
            args.state[_FORCED] = list(more)
            return Retry(reason=f"{rule} knows this error and acts on the next request.", matched=rule, rule=rule)
        return None

    @staticmethod
    def _fixed(
        name: str, fix: Callable[[list[StoredMessage]], bool], before: list[StoredMessage]
    ) -> list[StoredMessage] | None:
        """A repaired copy, or None when the rule changed nothing or raised."""
        messages = copy.deepcopy(before)
        try:
            return messages if fix(messages) else None
        except Exception:  # one's own rule must not end the run; what it did to its copy is thrown away
            log.exception("rule %s failed while repairing", name)
            return None


def _call_of(model: ModelRef, args: ProcessLLMRequestArgs | ProcessAPIErrorArgs, forced: Iterable[str]) -> Call:
    return Call(model.model_id, args.call_settings, frozenset(args.tool_names), tuple(forced))


def _read(given: list[dict[str, Any]], stored: Sequence[StoredMessage]) -> Prompt:
    """A prompt from its JSON form. Its reasoning has the stamp of the stored turn that its message names."""
    prompt = prompt_from_json(given)
    origins = {m.get("id"): origin for m in stored if (origin := origin_of(content_of(m.get("content"))))}
    if not origins:
        return prompt
    return prompt.with_messages([_stamped(m, origins.get(m.id)) for m in prompt.messages])


def _stamped(message: Message, origin: Origin | None) -> Message:
    if origin is None or isinstance(message.content, str):
        return message
    parts = tuple(
        replace(part, origin=origin) if isinstance(part, Reasoning) and part.origin is None else part
        for part in message.content
    )
    return replace(message, content=parts, origin=origin)


def _as_prompt(value: Any) -> Prompt:
    return value if isinstance(value, Prompt) else prompt_from_json(value)


def _take_repair(
    messages: MessageList, before: Sequence[StoredMessage], after: Sequence[StoredMessage]
) -> list[StoredMessage]:
    """Put what a fix did into the list; the messages that have to be stored anew.

    What it took out is out for this run, what it added is for the prompt only: neither is a version of anything.
    """
    old = {message.get("id"): message for message in before}
    changed = [m for m in after if (known := old.get(m.get("id"))) is not None and known != m]
    kept = {message.get("id") for message in after}
    for message in changed:
        if messages.source_of(message["id"]) is not None:
            messages.replace(message)
    messages.remove(message_id for message_id in old if message_id is not None and message_id not in kept)
    messages.add([message for message in after if message.get("id") not in old], "context", merge=False)
    return changed


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")


def run_steps(
    steps: Sequence[Step],
    prompt: Prompt,
    profile: Profile,
    switches: Switches,
    *,
    tool_names: Sequence[str] = (),
    call: Call | None = None,
) -> tuple[Prompt, list[Change], list[Finding], dict[str, str]]:
    """Run passes for a target: the prompt (the same object when nothing changed), changes, findings, renamed tools."""
    facts: Facts = facts_of(prompt, tool_names)
    facts.call = call or Call(declared=frozenset(tool_names))
    changes: list[Change] = []
    findings: list[Finding] = []
    names: dict[str, str] = {}
    for step in steps:
        forced = step.fault in facts.call.forced
        target = replace(profile, **STRICT.get(step.fault, {})) if forced else profile
        if not forced and not step.may_act(profile, facts):
            continue
        rule = profile.rule(step.fault)
        state = switches.state(rule, default_state(rule))
        waits = state == "reactive" or (state == "on" and waits_for_error(rule))
        if state == "off" or (waits and not forced):
            continue
        facts.call.is_forced = forced
        if state == "report":
            needs = dict(facts.call.needs)
            # What the pass learns holds for a prompt that is not sent.
            findings += map(_finding, step.run(prompt, target, replace(facts), rule)[1])
            facts.call.needs = needs
            continue
        new, made = step.run(prompt, target, facts, rule)
        facts.follow(prompt, new, keeps_places=step.keeps_places)
        prompt = new
        if forced:
            made = [replace(change, breaks_prefix=True) for change in made]
        changes += [told_of_cache(change) if change.breaks_prefix else change for change in made]
        if step.fault == "tool-name":
            names = renames(facts.tool_names, profile.tool_names)
    return prompt, changes, findings, names


def _finding(change: Change) -> Finding:
    place = change.spot.message_id
    if change.spot.part is not None:
        place += f"/content/parts/{change.spot.part}"
    return Finding(change.rule, place, change.severity, change.reason, _would_do(change))


def _would_do(change: Change) -> str:
    if change.after is None:
        return f"leave out {_shown(change.before)}"
    if change.before is None:
        return f"add {_shown(change.after)}"
    return f"replace {_shown(change.before)} by {_shown(change.after)}"


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else str(value)
    return text if len(text) <= 80 else f"{text[:80]}…"
