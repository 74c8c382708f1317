"""The page of all rules is the one its command makes."""

from pathlib import Path

from memory.processors.compat.catalogue import RULES
from memory.processors.compat.table import page
from memory.profiles import PROFILES

ROOT = Path(__file__).resolve().parent.parent.parent


def test_is_what_the_command_makes() -> None:
    assert (ROOT / "docs" / "rules.md").read_text() == page()


def test_names_every_rule_that_a_profile_uses() -> None:
    used = {rule for profile in PROFILES for rule in profile.rules.values()}
    assert used <= set(RULES)
    assert all(f"| `{rule}`" in page() for rule in RULES)


def test_says_of_every_rule_what_tests_it() -> None:
    lines = [line for line in page().splitlines() if line.startswith("| `") and line.count(" | ") == 6]
    assert len(lines) == len(RULES)
    assert [line for line in lines if not line.split(" | ")[4].strip()] == []


def test_every_fact_serves_a_rule_of_its_profile() -> None:
    for profile in PROFILES:
        assert {fact.rule for fact in profile.facts} <= set(profile.rules.values()), profile.id
