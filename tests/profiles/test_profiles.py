"""Facts about targets: how one is found, what its ids become."""

import itertools
import re
from datetime import date

import pytest

from memory.messages.names import PROTOCOLS, PROVIDERS, ModelRef
from memory.processors.compat.catalogue import RULES
from memory.profiles import PROFILES, UNKNOWN, profile_for
from memory.profiles.profile import IdFormat, Profile

CLAUDE = IdFormat(refused="[^a-zA-Z0-9_-]", may_be_empty=False)
SHORT = IdFormat(longest=40)


@pytest.mark.parametrize(
    ("provider", "protocol", "expected"),
    [("anthropic", "anthropic-messages", "anthropic-messages"), ("openai", "openai-chat", "openai-chat")],
)
def test_is_found_by_provider_and_protocol(provider: str, protocol: str, expected: str) -> None:
    assert profile_for(ModelRef(provider, "m"), protocol).protocol == expected


def test_of_a_stranger_is_the_unknown_one() -> None:
    assert profile_for(ModelRef("nobody", "m")).id == UNKNOWN.id


@pytest.mark.parametrize("profile", PROFILES, ids=[profile.id for profile in PROFILES])
def test_names_known_things_and_dates_its_facts(profile: Profile) -> None:
    assert profile.provider in PROVIDERS
    assert profile.protocol in ("", *PROTOCOLS)
    assert [rule for rule in profile.rules.values() if rule not in RULES] == []
    assert all(fact.source and date.fromisoformat(fact.seen_on) for fact in profile.facts)


@pytest.mark.parametrize(
    ("form", "given", "expected"),
    [
        (CLAUDE, "a.1", ["a_1", "a_1_2", "a_1_3"]),
        (CLAUDE, "", ["_", "__2", "__3"]),
        (CLAUDE, "fine-1", ["fine-1", "fine-1_2", "fine-1_3"]),
        (SHORT, "x" * 40, ["x" * 40]),
    ],
)
def test_gives_ids_their_plain_form_first(form: IdFormat, given: str, expected: list[str]) -> None:
    assert list(itertools.islice(form.forms(given), len(expected))) == expected


def test_hashes_ids_that_are_too_long() -> None:
    first, second = (next(SHORT.forms("x" * 41 + tail)) for tail in "ab")
    assert re.fullmatch("call_[0-9a-f]{24}", first)
    assert first != second
    assert SHORT.fits(first)
