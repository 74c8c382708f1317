"""The file of all facts is the one its command makes, and keeps to its schema."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from memory.processors.compat.passes import CATALOGUE
from memory.profiles import PROFILES
from memory.profiles.export import FACTS, OF_THE_PROTOCOL, document, facts, schema
from memory.profiles.profile import Profile

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
NO_FACTS = {"id", "provider", "title", "protocol", "models", "rules", "facts"}
"""What a profile says of itself, not of its provider."""


@pytest.fixture(scope="module")
def validator() -> Any:
    return jsonschema_rs.validator_for(json.loads(schema()), validate_formats=True)


def test_both_files_are_what_the_command_makes() -> None:
    assert (DOCS / "facts.json").read_text(encoding="utf-8") == document()
    assert (DOCS / "facts.schema.json").read_text(encoding="utf-8") == schema()


def test_the_schema_is_one_and_the_file_keeps_to_it(validator: Any) -> None:
    jsonschema_rs.meta.validate(json.loads(schema()))
    validator.validate(json.loads(document()))


@pytest.mark.parametrize(
    "change",
    [
        {"fact": "colour"},
        {"value": "blue"},
        {"models": []},
        {"seen_on": "last week"},
        {"source": ""},
        {"more": 1},
    ],
)
def test_what_is_no_fact_is_refused(validator: Any, change: dict[str, Any]) -> None:
    odd = copy.deepcopy(json.loads(document()))
    odd["facts"][0] |= change
    assert not validator.is_valid(odd)


def test_every_fact_of_a_profile_is_exported_under_a_fault_that_has_a_pass() -> None:
    assert set(Profile.__struct_fields__) - NO_FACTS == set(FACTS)
    assert {fault for fault, _ in FACTS.values()} <= {step.fault for step in CATALOGUE}


def test_every_dated_source_is_exported() -> None:
    dated = {(profile.id, fact.rule, fact.source, fact.seen_on) for profile in PROFILES for fact in profile.facts}
    exported = {(one["profile"], one["rule"], one["source"], one["seen_on"]) for one in facts() if one["seen_on"]}
    assert exported == dated
    assert all((one["seen_on"] is None) == (one["source"] == OF_THE_PROTOCOL) for one in facts())
