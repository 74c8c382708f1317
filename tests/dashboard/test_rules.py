from typing import Any

import pytest
from django.test import Client

from memory.models import AuditEvent, RuleSetting
from memory.processors.compat.catalogue import RULES
from memory.services.rules import switches_for
from tests.make import make_agent

RULE = "anthropic-tool-id-charset"


class TestRules:
    def test_are_all_on_the_page(self, pages: Client) -> None:
        shown = pages.get("/rules/").content.decode()

        assert all(f'id="rule-{rule}"' in shown for rule in RULES)

    def test_are_found_by_name_or_words(self, pages: Client) -> None:
        shown = pages.get("/rules/?q=tool+CHARSET").content.decode()

        assert f'id="rule-{RULE}"' in shown
        assert 'id="rule-any-blank-text"' not in shown
        assert "No rule matches" in pages.get("/rules/?q=xyzzy").content.decode()

    def test_cost_the_same_number_of_queries_with_more_switches(
        self, pages: Client, django_assert_num_queries: Any
    ) -> None:
        with django_assert_num_queries(5):
            pages.get("/rules/")
        for rule in RULES:
            RuleSetting.objects.create(rule=rule, scope="global", state="off")
        with django_assert_num_queries(5):
            pages.get("/rules/")


class TestSwitch:
    def test_works_as_a_plain_form(self, pages: Client) -> None:
        answer = pages.post(f"/rules/{RULE}/", {"state": "off", "scope": ""})

        assert answer["Location"] == f"/rules/#rule-{RULE}"
        assert switches_for("anthropic") == {RULE: "off"}
        assert f"{RULE} is off everywhere." in pages.get("/rules/").content.decode()
        assert AuditEvent.objects.get(action="rule.switched").actor == "operator"

    def test_gives_htmx_the_changed_row_and_a_way_back(self, pages: Client) -> None:
        answer = pages.post(f"/rules/{RULE}/", {"state": "off", "scope": ""}, headers={"HX-Request": "true"})

        shown = answer.content.decode()
        assert shown.lstrip().startswith(f'<tr id="rule-{RULE}"')
        assert 'hx-swap-oob="innerHTML:#toasts"' in shown
        assert 'value="default">Undo' in shown
        pages.post(f"/rules/{RULE}/", {"state": "default", "scope": ""}, headers={"HX-Request": "true"})
        assert not RuleSetting.objects.exists()

    def test_counts_for_its_scope_only(self, pages: Client) -> None:
        agent = make_agent()

        pages.post(f"/rules/{RULE}/", {"state": "report", "scope": "provider:anthropic"})
        pages.post(f"/rules/{RULE}/", {"state": "off", "scope": f"agent:{agent.id}"})

        assert switches_for("anthropic") == {RULE: "report"}
        assert switches_for("anthropic", agent.id) == {RULE: "off"}
        assert switches_for("openai") == {}
        assert f"off for {agent.id}" in pages.get("/rules/").content.decode()

    @pytest.mark.parametrize(
        ("rule", "values", "status"),
        [
            ("no-such-rule", {"state": "off"}, 404),
            (RULE, {"state": "maybe"}, 400),
            (RULE, {}, 400),
            (RULE, {"state": "off", "scope": "provider:nobody"}, 400),
            (RULE, {"state": "off", "scope": "agent:nobody"}, 400),
            (RULE, {"state": "off", "scope": "galaxy:x"}, 400),
        ],
    )
    def test_refuses_nonsense(self, pages: Client, rule: str, values: dict[str, str], status: int) -> None:
        assert pages.post(f"/rules/{rule}/", values).status_code == status
        assert not RuleSetting.objects.exists()

    def test_is_a_form_and_never_a_link(self, pages: Client) -> None:
        assert pages.get(f"/rules/{RULE}/").status_code == 405
