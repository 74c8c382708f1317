"""Every rule has a history that shows it at work."""

from __future__ import annotations

import pytest

from memory.messages.names import PROVIDERS
from memory.processors.compat.catalogue import RULES
from memory.processors.compat.examples import Example, all_examples, examples_for
from memory.trials import trial_of

EXAMPLES = {f"{rule} {number}": example for rule in RULES for number, example in enumerate(examples_for(rule), start=1)}


def test_every_rule_has_one() -> None:
    assert [rule for rule in RULES if not examples_for(rule)] == []


def test_none_names_a_rule_or_a_provider_that_is_not_there() -> None:
    named = {name for example in all_examples() for name in (example.rule, *example.also_off, *example.without)}
    assert named <= set(RULES)
    assert {example.provider for example in all_examples()} <= set(PROVIDERS)


def test_an_unknown_rule_has_none() -> None:
    assert examples_for("no-such-rule") == ()


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
def test_the_rule_acts_on_it(example: Example) -> None:
    trial = trial_of(example)
    assert trial.acts
    assert trial.cured is not None


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
def test_says_what_is_wrong_in_one_sentence(example: Example) -> None:
    assert example.wrong.endswith(".")
    assert example.messages or example.prompt
