"""`ProviderHistoryCompat`: the prompt rewritten for its target, and history repaired after a provider's error."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Sequence
from typing import Any, Literal

from memory.errors import InvalidOption
from memory.messages.prompt import Prompt, prompt_from_json, prompt_to_json
from memory.messages.stored import StoredMessage
from memory.processors.base import ProcessAPIErrorArgs, ProcessLLMRequestArgs, PromptResult, Repair, Retry, Switches
from memory.processors.changes import Change, Finding, Spot
from memory.processors.compat import reference
from memory.processors.compat.catalogue import default_state
from memory.processors.compat.errors import texts_of
from memory.processors.compat.passes import CATALOGUE, Step
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


class ProviderHistoryCompat:
    """Rewrites prompts for their target (nothing is stored) and repairs history after the target's error (stored).

    `rules="catalogue"` runs all passes by the target's profile, `"reference"` exactly the reference's nine rules.
    `additional_rules` run after the built-in ones, in the given order. Raises InvalidOption naming the option.
    """

    id = "provider-history-compat"
    name = "Provider History Compat"

    def __init__(
        self, *, additional_rules: Sequence[CompatRule] = (), rules: Literal["catalogue", "reference"] = "catalogue"
    ) -> None:
        if rules not in ("catalogue", "reference"):
            raise InvalidOption(f"rules: expected catalogue or reference, got {rules!r}", field="rules")
        for i, rule in enumerate(additional_rules):
            if not isinstance(rule, CompatRule):
                place = f"additional_rules[{i}]"
                raise InvalidOption(f"{place}: expected a CompatRule, got {rule!r}", field=place)
        self.rules = rules
        self.additional_rules = tuple(additional_rules)

    # Before the call

    def process_llm_request(self, args: ProcessLLMRequestArgs) -> PromptResult | None:
        """The rewritten prompt in the kind it was given, or None when there is nothing to change or report."""
        is_json = not isinstance(args.prompt, Prompt)
        given = prompt_from_json(args.prompt) if not isinstance(args.prompt, Prompt) else args.prompt
        if self.rules == "reference":
            prompt, changes, findings, names = self._by_reference(given, args)
        else:
            model = model_ref_of(args.model)
            profile = profile_for(model, args.protocol)
            prompt, changes, findings, names = run_steps(
                CATALOGUE, given, profile, args.switches, tool_names=args.tool_names
            )
        for rule in self.additional_rules:
            prompt, change = self._by_own_rule(rule, prompt, args)
            changes += change
        if prompt is given and not findings and not names:
            return None
        return PromptResult(
            prompt=prompt_to_json(prompt) if is_json else prompt, changes=changes, findings=findings, tool_names=names
        )

    def _by_reference(
        self, prompt: Prompt, args: ProcessLLMRequestArgs
    ) -> tuple[Prompt, list[Change], list[Finding], dict[str, str]]:
        changes: list[Change] = []
        findings: list[Finding] = []
        stored = args.message_list.messages or None
        for rule in reference.PROACTIVE:
            state = args.switches.state(rule.rule, default_state(rule.rule))
            if state == "off":
                continue
            new, made = rule.rewrite(prompt, args.model, stored, rule.rule)
            if state == "report":
                findings += map(_finding, made)
            else:
                prompt, changes = new, changes + made
        return prompt, changes, findings, {}

    def _by_own_rule(
        self, rule: CompatRule, prompt: Prompt, args: ProcessLLMRequestArgs
    ) -> tuple[Prompt, list[Change]]:
        if rule.apply_to_prompt is None or args.switches.state(rule.name) == "off":
            return prompt, []
        given: Any = prompt if isinstance(args.prompt, Prompt) else prompt_to_json(prompt)
        made = rule.apply_to_prompt(given, model=model_ref_of(args.model), messages=args.message_list.messages)
        if made is None or made is given:
            return prompt, []
        new = made if isinstance(made, Prompt) else prompt_from_json(made)
        return new, _changes_by_comparison(rule.name, prompt, new)

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
            if args.switches.state(rule.name, default_state(rule.name)) != "on":
                continue
            before = args.messages or args.message_list.messages
            fixed = self._fixed(rule.name, rule.fix, before)
            if fixed is None:
                continue
            changed = [new for old, new in zip(before, fixed, strict=False) if old != new]
            for message in changed:
                if args.message_list.source_of(message["id"]) is not None:
                    args.message_list.replace(message)
            reason = f"{rule.name} knows this error and repaired {_counted(len(changed), 'message')}."
            repair = Repair(rule=rule.name, reason=texts[0][:500], messages=changed)
            return Retry(reason=reason, matched=rule.name, rule=rule.name, repair=repair)
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


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")


def run_steps(
    steps: Sequence[Step],
    prompt: Prompt,
    profile: Profile,
    switches: Switches,
    *,
    tool_names: Sequence[str] = (),
) -> tuple[Prompt, list[Change], list[Finding], dict[str, str]]:
    """Run passes for a target: the prompt (the same object when nothing changed), changes, findings, renamed tools."""
    facts: Facts = facts_of(prompt, tool_names)
    changes: list[Change] = []
    findings: list[Finding] = []
    names: dict[str, str] = {}
    for step in steps:
        if not step.may_act(profile, facts):
            continue
        rule = profile.rule(step.fault)
        state = switches.state(rule, default_state(rule))
        if state == "off":
            continue
        new, made = step.run(prompt, profile, facts, rule)
        if state == "report":
            findings += map(_finding, made)
            continue
        prompt = new
        changes += made
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


def _changes_by_comparison(rule: str, before: Prompt, after: Prompt) -> list[Change]:
    """What one's own rule did, message by message: it does not say so itself."""
    reason = "Changed by a rule of this installation."
    old = {(m.id, m.role, i if not m.id else 0): m for i, m in enumerate(before.messages)}
    new = {(m.id, m.role, i if not m.id else 0): m for i, m in enumerate(after.messages)}
    out = []
    for key in [*old, *(key for key in new if key not in old)]:
        was, now = old.get(key), new.get(key)
        if was is not now and was != now:
            spot = Spot(key[0])
            out.append(
                Change(rule, reason, "reshaped", spot, was.text[:300] if was else None, now.text[:300] if now else None)
            )
    return out
