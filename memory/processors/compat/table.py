"""The page of all rules: `python -m memory.processors.compat.table > docs/rules.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from memory.processors.compat.catalogue import FAULT_TITLES, RULES, RuleInfo, default_state
from memory.processors.compat.covered import Covered, covered
from memory.processors.compat.examples import examples_for
from memory.processors.compat.faults import faults_by_refusal, known_rules
from memory.processors.compat.patterns import NO_REPAIR
from memory.processors.compat.targets import facts_for, touches

_HEAD = """# Rules

What each rule repairs, what it touches, what tests it, where the fact behind it comes from, and its state where nobody
switched it. Made by `python -m memory.processors.compat.table`; switches are on the Rules page and under `/api/rules`.

*In words*: the target's error is known by its words too, and asks for the same repair when the request got through
unrepaired. *Tests*: how many examples `tests/rules` sends to the pretend providers with the rule on and off; refusals
seen elsewhere, by their ids in `tests/cases`; and the files of the core's tests that name the rule (its page on the
dashboard lists every test that does).
"""
_ROOMS = ("processors", "profiles", "providers", "rules", "vectors")
"""Tests of what a rule does; others need some rule's name."""


def page() -> str:
    """The page as Markdown: a table for each provider, in the order of the catalogue."""
    in_words = known_rules()
    providers = dict.fromkeys(rule.provider for rule in RULES.values())
    sections = []
    for provider in sorted(providers, key=lambda name: (name != "any", name)):
        rules = [rule for rule in RULES.values() if rule.provider == provider]
        title = "Every provider" if provider == "any" else provider
        lines = [
            "| rule | what it does | touches | in words | tests | evidence | state |",
            "|---|---|---|---|---|---|---|",
        ]
        lines += [_line(rule, rule.id in in_words) for rule in rules]
        sections.append(f"## {title}\n\n" + "\n".join(lines))
    sections.append("## Refusals known by other words\n\n" + "\n".join(_other_words()))
    sections.append("## Refusals without a repair\n\n" + "\n".join(_without_repair()))
    return "\n\n".join([_HEAD.rstrip(), f"{len(RULES)} rules.", *sections]) + "\n"


def _other_words() -> Iterator[str]:
    yield "These have no rule of their own: what repairs them is another rule, which their words ask for."
    yield ""
    yield "| refusal | repaired as |"
    yield "|---|---|"
    for name, faults in faults_by_refusal().items():
        if name not in RULES:
            titles = ", ".join(FAULT_TITLES[fault] for fault in faults)
            yield f"| `{name}` | {titles} |"


def _without_repair() -> Iterator[str]:
    yield "The error is shown as it is, as one of the history."
    yield ""
    yield "| refusal | why there is none |"
    yield "|---|---|"
    for name, why in NO_REPAIR.items():
        yield f"| `{name}` | {why} |"


def _line(rule: RuleInfo, is_known: bool) -> str:
    name = f"`{rule.id}`" + (f"<br>family `{rule.family}`" if rule.family else "")
    cells = (
        name,
        f"**{rule.title}.** {rule.why}",
        touches(rule.id),
        "yes" if is_known else "",
        _tests(rule.id),
        _evidence(rule),
        default_state(rule.id),
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _tests(rule: str) -> str:
    """What covers a rule, each kind on a line of its own."""
    found = covered(rule) or Covered()
    examples = len(examples_for(rule))
    files = dict.fromkeys(name.partition("::")[0] for name in found.tests if name.startswith(_ROOMS))
    kinds = (
        f"{examples} example{'s' if examples > 1 else ''}" if examples else "",
        ", ".join(dict.fromkeys(case for case, _ in found.cases)),
        ", ".join(f"`{file}`" for file in files),
    )
    return "<br>".join(filter(None, kinds))


def _evidence(rule: RuleInfo) -> str:
    """How surely it is known, and from what, newest first."""
    facts = [f"{fact.source}, {fact.seen_on}" for fact in facts_for(rule.id)]
    return "<br>".join([f"{rule.confidence}:", *(facts or ["the form of the protocol"])])


if __name__ == "__main__":
    sys.stdout.write(page())
