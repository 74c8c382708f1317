"""The page of all rules: `python -m memory.processors.compat.table > docs/rules.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from memory.processors.compat.catalogue import FAULT_TITLES, RULES, RuleInfo
from memory.processors.compat.faults import faults_by_refusal, known_rules
from memory.processors.compat.patterns import NO_REPAIR
from memory.profiles import PROFILES
from memory.profiles.profile import Fact

_HEAD = """# Rules

What each rule repairs, when it acts, and where the fact behind it comes from. Made by
`python -m memory.processors.compat.table`; switches are on the Rules page and under `/api/rules`.

A rule that acts *before the call* changes the request only, never the thread. *In words*: the target's error is known
by its words too, and asks for the same repair when the request got through unrepaired. A rule without an entry under
*last evidence* follows from the form of the protocol.
"""


def page() -> str:
    """The page as Markdown: a table for each provider, in the order of the catalogue."""
    facts = {fact.rule: fact for profile in PROFILES for fact in profile.facts}
    in_words = known_rules()
    providers = dict.fromkeys(rule.provider for rule in RULES.values())
    sections = []
    for provider in sorted(providers, key=lambda name: (name != "any", name)):
        rules = [rule for rule in RULES.values() if rule.provider == provider]
        title = "Every provider" if provider == "any" else provider
        lines = ["| rule | what it does | acts | in words | known from | last evidence |", "|---|---|---|---|---|---|"]
        lines += [_line(rule, facts.get(rule.id), rule.id in in_words) for rule in rules]
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


def _line(rule: RuleInfo, fact: Fact | None, is_known: bool) -> str:
    name = f"`{rule.id}`" + (f"<br>family `{rule.family}`" if rule.family else "")
    evidence = f"{fact.source}, {fact.seen_on}" if fact else ""
    cells = (name, f"**{rule.title}.** {rule.why}", rule.acts, "yes" if is_known else "", rule.confidence, evidence)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


if __name__ == "__main__":
    sys.stdout.write(page())
