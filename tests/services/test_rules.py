"""Switches: which one counts, and that each change is on record."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memory.errors import InvalidInput
from memory.models import AuditEvent, RuleSetting
from memory.processors.compat.catalogue import RULES, rule_ids
from memory.queries import rule_settings
from memory.services.rules import reset_rule, switch_rule, switches_for
from tests.make import caller, make_agent

pytestmark = pytest.mark.django_db

RULE = "anthropic-tool-id-charset"


class TestSwitches:
    def test_agent_beats_provider_beats_global_whatever_came_first(self) -> None:
        agent = make_agent()
        switch_rule(caller(), RULE, "report", agent_id=agent.id)
        switch_rule(caller(), RULE, "on", provider="anthropic")
        switch_rule(caller(), RULE, "off")
        assert switches_for("anthropic", agent.id) == {RULE: "report"}
        assert switches_for("anthropic", "other") == switches_for("anthropic") == {RULE: "on"}
        assert switches_for("openai") == {RULE: "off"}

    def test_without_any_are_absent_and_cost_one_query(self) -> None:
        with CaptureQueriesContext(connection) as captured:
            assert switches_for("anthropic", "agent") == {}
        assert len(captured) == 1

    def test_by_family_set_every_rule_of_it(self) -> None:
        family, members = next(
            (info.family, rule_ids(info.family)) for info in RULES.values() if info.family and info.family not in RULES
        )
        assert switch_rule(caller(), family, "off") == members
        assert switches_for("anthropic") == dict.fromkeys(members, "off")

    def test_changed_again_keep_one_row_and_tell_what_was_before(self) -> None:
        switch_rule(caller(name="Ada"), RULE, "off", provider="anthropic")
        switch_rule(caller(name="Bob"), RULE, "on", provider="anthropic")
        [setting] = rule_settings()
        assert (setting.rule, setting.scope, setting.scope_id, setting.state, setting.changed_by) == (
            RULE,
            "provider",
            "anthropic",
            "on",
            "Bob",
        )
        first, second = AuditEvent.objects.order_by("id")
        assert (first.actor, first.action, first.target_id, first.detail["before"]) == (
            "Ada",
            "rule.switched",
            RULE,
            {},
        )
        assert (second.actor, second.detail["before"], second.detail["state"]) == ("Bob", {RULE: "off"}, "on")

    def test_taken_away_give_way_to_the_wider_one(self) -> None:
        switch_rule(caller(), RULE, "off")
        switch_rule(caller(), RULE, "on", provider="anthropic")
        reset_rule(caller(), RULE, provider="anthropic")
        assert switches_for("anthropic") == {RULE: "off"}
        event = AuditEvent.objects.get(action="rule.reset")
        assert event.detail["before"] == {RULE: "on"}
        reset_rule(caller(), RULE, provider="anthropic")
        assert AuditEvent.objects.filter(action="rule.reset").count() == 1

    def test_that_make_no_sense_are_refused_and_leave_nothing(self) -> None:
        agent = make_agent()
        with pytest.raises(InvalidInput, match=RULE):
            switch_rule(caller(), f"{RULE}x", "off")
        with pytest.raises(InvalidInput, match="off, report, on"):
            switch_rule(caller(), RULE, "maybe")
        for scope in ({"provider": "nobody"}, {"agent_id": "nobody"}, {"agent_id": "\x00"}):
            with pytest.raises(InvalidInput):
                switch_rule(caller(), RULE, "off", **scope)
        with pytest.raises(InvalidInput):
            switch_rule(caller(), RULE, "off", provider="anthropic", agent_id=agent.id)
        assert not RuleSetting.objects.exists()
        assert not AuditEvent.objects.exists()
