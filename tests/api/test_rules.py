from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memory.models import AuditEvent, RuleSetting
from memory.processors.compat.catalogue import RULES
from tests import make
from tests.api.callers import Caller, problem

RULE = "anthropic-tool-id-charset"
# A family that has one member, under another name than its own.
FAMILY, MEMBER = "cerebras-strip-reasoning-content", "cerebras-reasoning-content"


class TestRuleList:
    def test_holds_every_rule_with_its_words(self, caller: Caller) -> None:
        page = caller.get("/rules")
        assert [item["id"] for item in page["items"]] == list(RULES)
        assert page["next_cursor"] is None
        item = next(item for item in page["items"] if item["id"] == MEMBER)
        info = RULES[MEMBER]
        assert item == {
            "id": MEMBER,
            "family": FAMILY,
            "provider": "cerebras",
            "title": info.title,
            "acts": info.acts,
            "confidence": info.confidence,
            "why": info.why,
            "default": info.default,
            "state": info.default,
            "switches": [],
        }

    def test_shows_switches_and_the_state_for_everybody(self, caller: Caller) -> None:
        RuleSetting.objects.create(rule=RULE, scope="provider", scope_id="anthropic", state="off", changed_by="ada")
        item = next(item for item in caller.get("/rules")["items"] if item["id"] == RULE)
        assert item["state"] == "on"
        (switch,) = item["switches"]
        assert (switch["scope"], switch["scope_id"], switch["state"], switch["changed_by"]) == (
            "provider",
            "anthropic",
            "off",
            "ada",
        )
        RuleSetting.objects.create(rule=RULE, scope="global", state="report")
        item = next(item for item in caller.get("/rules")["items"] if item["id"] == RULE)
        assert item["state"] == "report"

    def test_is_paged_like_the_others(self, caller: Caller) -> None:
        seen: list[str] = []
        cursor: dict[str, str] = {}
        while True:
            page = caller.get("/rules", limit=7, **cursor)
            assert 0 < len(page["items"]) <= 7
            seen += [item["id"] for item in page["items"]]
            if page["next_cursor"] is None:
                break
            cursor = {"cursor": page["next_cursor"]}
        assert seen == list(RULES)
        problem(caller.send("GET", "/rules", cursor="x"), 400, "bad_cursor", "cursor")
        problem(caller.send("GET", "/providers", **page_cursor(caller)), 400, "bad_cursor", "cursor")
        problem(caller.send("GET", "/rules", limit="201"), 422, "invalid_input", "limit")

    def test_takes_the_same_number_of_queries_with_more_switches(self, caller: Caller) -> None:
        caller.get("/rules")
        with CaptureQueriesContext(connection) as few:
            caller.get("/rules")
        for rule in RULES:
            RuleSetting.objects.create(rule=rule, scope="global", state="off")
        with CaptureQueriesContext(connection) as many:
            caller.get("/rules")
        assert len(few) == len(many)


def page_cursor(caller: Caller) -> dict[str, str]:
    return {"cursor": caller.get("/rules", limit=1)["next_cursor"]}


class TestRuleChange:
    def test_switches_one_rule_for_everybody(self, caller: Caller) -> None:
        (item,) = caller.patch(f"/rules/{RULE}", {"state": "off"})["items"]
        assert (item["id"], item["state"]) == (RULE, "off")
        row = RuleSetting.objects.get()
        assert (row.rule, row.scope, row.scope_id, row.state) == (RULE, "global", "", "off")
        assert AuditEvent.objects.get(action="rule.switched").target_id == RULE

    def test_switches_a_family(self, caller: Caller) -> None:
        (item,) = caller.patch(f"/rules/{FAMILY}", {"state": "report"})["items"]
        assert (item["id"], item["state"]) == (MEMBER, "report")

    def test_switches_for_a_provider_or_an_agent(self, caller: Caller) -> None:
        make.make_agent(id="helper")
        caller.patch(f"/rules/{RULE}", {"state": "off", "provider": "anthropic"})
        (item,) = caller.patch(f"/rules/{RULE}", {"state": "report", "agent_id": "helper"})["items"]
        assert item["state"] == "on"
        assert {(s["scope"], s["scope_id"], s["state"]) for s in item["switches"]} == {
            ("provider", "anthropic", "off"),
            ("agent", "helper", "report"),
        }

    @pytest.mark.parametrize(
        ("body", "field"),
        [
            ({}, "state"),
            ({"state": "maybe"}, "state"),
            ({"state": True}, "state"),
            ({"state": "off", "provider": "nowhere"}, "provider"),
            ({"state": "off", "agent_id": "absent"}, "agent_id"),
            ({"state": "off", "provider": "anthropic", "agent_id": "absent"}, "provider"),
            ({"state": "off", "agent": "typo"}, "agent"),
        ],
    )
    def test_is_refused_with_the_place(self, caller: Caller, body: Any, field: str) -> None:
        problem(caller.send("PATCH", f"/rules/{RULE}", body), 422, "invalid_input", field)
        assert not RuleSetting.objects.exists()

    def test_finds_no_unknown_rule_but_names_the_nearest(self, caller: Caller) -> None:
        found = problem(caller.send("PATCH", f"/rules/{RULE}s", {"state": "off"}), 404, "not_found")
        assert RULE in found["detail"]


class TestDefault:
    def test_takes_a_switch_away(self, caller: Caller) -> None:
        caller.patch(f"/rules/{RULE}", {"state": "off"})
        caller.patch(f"/rules/{RULE}", {"state": "report", "provider": "anthropic"})
        (item,) = caller.patch(f"/rules/{RULE}", {"state": "default"})["items"]
        assert item["state"] == item["default"]
        assert [switch["scope"] for switch in item["switches"]] == ["provider"]
        assert AuditEvent.objects.filter(action="rule.reset").count() == 1
