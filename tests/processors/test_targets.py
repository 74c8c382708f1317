"""Which targets a rule is for: told by the passes themselves."""

from memory.processors.compat import processor
from memory.processors.compat.catalogue import RULES, fault_words
from memory.processors.compat.covered import covered
from memory.processors.compat.examples import all_examples
from memory.processors.compat.passes import CATALOGUE
from memory.processors.compat.targets import STEP_NAMES, concerns, facts_for, step_of, targets_of
from memory.profiles import PROFILES


class TestConcerns:
    def test_every_rule_that_a_profile_names_has_a_target(self) -> None:
        faults = {step.fault for step in CATALOGUE}
        named = {rule for profile in PROFILES for fault, rule in profile.rules.items() if fault in faults}

        assert named - {each.rule for each in concerns()} == set()

    def test_the_provider_of_an_example_is_a_target_of_its_rule(self) -> None:
        strays = {
            (example.rule, example.provider)
            for example in all_examples()
            if example.provider != "other"
            and (targets := targets_of(example.rule))
            and example.provider not in {each.profile.provider for each in targets}
        }

        assert strays == set()

    def test_says_by_which_facts(self) -> None:
        (reads,) = {each.reads for each in targets_of("anthropic-tool-id-charset")}

        assert reads == ("tool_ids",)

    def test_what_a_target_does_not_mind_is_no_concern(self) -> None:
        opus = {each.fault for each in concerns() if each.profile.id == "anthropic-opus-4-8"}
        others = {each.fault for each in concerns() if each.profile.id == "anthropic"}

        assert "system-turn" in others - opus
        assert "tool-id" not in {each.fault for each in concerns() if each.profile.provider == "gemini"}

    def test_every_fault_has_words_and_every_rule_a_step_or_repairs_the_thread(self) -> None:
        assert all(all(fault_words(step.fault)) for step in CATALOGUE)
        assert {step.number for step in CATALOGUE} <= set(range(1, len(STEP_NAMES) + 1))
        assert {rule for rule in RULES if step_of(rule) is None} == {rule.name for rule in processor._REPAIRS}

    def test_evidence_is_newest_first_and_each_source_once(self) -> None:
        found = facts_for("anthropic-role-system")

        assert [fact.seen_on for fact in found] == sorted((fact.seen_on for fact in found), reverse=True)
        assert len({fact.source for fact in found}) == len(found)


class TestCovered:
    def test_names_tests_and_refusals_seen_elsewhere(self) -> None:
        found = covered("anthropic-tool-id-charset")

        assert found is not None
        assert any(name.endswith("TestConcerns::test_says_by_which_facts") for name in found.tests)
        assert ("s01-anthropic-kimi-id", "langchain-ai/langchain#37756") in found.cases
