from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import transaction
from django.test import Client
from django.utils import timezone

from memory.models import AuditEvent, OperatorPreference, RuleProbe, RuleSetting
from memory.processors.changes import Placed, Severity
from memory.processors.compat.catalogue import RULES
from memory.services import rule_use
from memory.services.rules import switch_rule, switches_for
from tests.make import caller, make_agent, make_run, make_thread

RULE = "anthropic-tool-id-charset"
HTMX = {"HX-Request": "true"}


def act(rule: str = RULE, severity: Severity = "breaks", days_ago: float = 0, **fields: Any) -> str:
    """A run in which the rule acted; the id of its thread."""
    thread = make_thread(title=fields.pop("title", "begun elsewhere"))
    change = Placed(1, rule, "", severity, None, None, (), "m", "a", "b", "reason", "same")
    with transaction.atomic():
        at = timezone.now() - timedelta(days=days_ago)
        run = make_run(thread, **fields)
        rule_use.record(run, run.provider, "anthropic-messages", [change], [], at)
    return str(thread.id)


@pytest.fixture
def viewer(db: None) -> Client:
    """Somebody who sees the shape of things and nothing else."""
    user = get_user_model().objects.create_user("looker")
    OperatorPreference.objects.create(user=user, role="viewer")
    client = Client()
    client.force_login(user)
    return client


class TestCatalogue:
    def test_has_every_rule(self, pages: Client) -> None:
        shown = pages.get("/rules/").content.decode()

        assert all(f'id="rule-{rule}"' in shown for rule in RULES)

    @pytest.mark.parametrize(
        "query",
        [
            "q=tool+CHARSET",
            "q=letters+digits+charset",
            "q=messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]%2B$'",
            "provider=anthropic&step=5",
            "q=charset&state=on&evidence=several+reports",
            "fired=yes",
        ],
    )
    def test_is_searched_and_filtered(self, pages: Client, query: str) -> None:
        act()

        shown = pages.get(f"/rules/?{query}").content.decode()

        assert f'id="rule-{RULE}"' in shown
        assert 'id="rule-any-blank-text"' not in shown

    def test_finds_a_rule_by_the_reference_s_name(self, pages: Client) -> None:
        shown = pages.get("/rules/?q=strip-foreign-signed-reasoning").content.decode()

        assert shown.count('<tbody id="rule-') == 1
        assert 'id="rule-anthropic-thinking-signature-invalid"' in shown

    @pytest.mark.parametrize("query", ["q=xyzzy", "fired=yes", "state=off", "step=99", "provider=nobody", "q=%00("])
    def test_says_so_where_nothing_matches(self, pages: Client, query: str) -> None:
        shown = pages.get(f"/rules/?{query}").content.decode()

        assert "No rule matches" in shown
        assert "Show all rules" in shown

    def test_shows_the_most_used_first_with_counts(self, pages: Client) -> None:
        for _ in range(3):
            act("mistral-tool-id-format", provider="mistral")
        act()

        shown = pages.get("/rules/").content.decode()

        assert shown.index('id="rule-mistral-tool-id-format"') < shown.index(f'id="rule-{RULE}"')
        assert "4 changes in 7 days" in shown

    def test_costs_the_same_number_of_queries_with_more_switches_and_uses(
        self, pages: Client, django_assert_num_queries: Any
    ) -> None:
        with django_assert_num_queries(6):
            pages.get("/rules/")
        for rule in RULES:
            RuleSetting.objects.create(rule=rule, scope="global", state="off")
            act(rule)
        with django_assert_num_queries(6):
            pages.get("/rules/")


class TestMatrix:
    def test_leads_from_fault_and_provider_to_the_rule(self, pages: Client) -> None:
        act()
        switch_rule(caller(), "any-blank-text", "off")
        switch_rule(caller(), "cerebras-reasoning-content", "report", provider="cerebras")

        shown = pages.get("/rules/matrix/").content.decode()

        assert f'href="/rules/{RULE}/?scope=provider:anthropic"' in shown
        # What a cell says is words, not only a colour.
        says = "Tool call ids in the form the target takes, Anthropic: anthropic-tool-id-charset is on"
        assert f"{says} and acts before the call; changed 1 requests in 7 days" in shown
        assert "Cerebras: cerebras-reasoning-content only reports" in shown
        assert "nothing known" in shown

    def test_costs_the_same_number_of_queries_with_more_uses(
        self, pages: Client, django_assert_num_queries: Any
    ) -> None:
        with django_assert_num_queries(6):
            pages.get("/rules/matrix/")
        for rule in list(RULES)[:20]:
            act(rule)
        with django_assert_num_queries(6):
            pages.get("/rules/matrix/")


class TestRulePage:
    @pytest.mark.parametrize("rule", RULES)
    def test_of_every_rule_says_what_it_does_with_an_example(self, pages: Client, rule: str) -> None:
        answer = pages.get(f"/rules/{rule}/")

        shown = answer.content.decode()
        assert answer.status_code == 200
        assert rule in shown
        assert "the smallest history that shows it" in shown
        assert len(answer.content) < 200_000

    def test_shows_evidence_error_facts_example_and_what_covers_it(self, pages: Client) -> None:
        shown = pages.get(f"/rules/{RULE}/").content.decode()

        assert "the pattern in the API" in shown
        assert "2026-09-01" in shown
        assert "String should match pattern" in shown
        assert "Call ids:</span> nothing of [^a-zA-Z0-9_-], not empty" in shown
        assert "functions<u>.</u>find<u>:</u>0" in shown
        assert "functions_find_0" in shown
        assert "langchain-ai/langchain#37756" in shown

    def test_says_how_often_in_how_many_threads_and_leads_to_the_runs(self, pages: Client) -> None:
        act(title="the parcel", days_ago=2)
        act(title="another")

        shown = pages.get(f"/rules/{RULE}/").content.decode()

        assert "1<small>thread</small>" in shown
        assert "2<small>threads</small>" in shown
        assert "2 requests, 2 changes" in shown
        assert "the parcel" in shown
        assert 'href="/runs/run-' in shown

    def test_shows_what_providers_answered(self, pages: Client) -> None:
        assert "manage.py probe anthropic" in pages.get(f"/rules/{RULE}/").content.decode()
        RuleProbe.objects.create(
            rule=RULE,
            provider="anthropic",
            protocol="anthropic-messages",
            model_id="claude-x",
            outcome="holds",
            raw_status=400,
            raw_error="<b>no</b>",
            cured_status=200,
        )

        shown = pages.get(f"/rules/{RULE}/").content.decode()

        assert "anthropic/claude-x" in shown
        assert "&lt;b&gt;no&lt;/b&gt;" in shown

    def test_has_the_effect_of_a_switch_beside_it_in_its_scope(self, pages: Client) -> None:
        thread_id = act(title="would break")
        act(severity="degrades", provider="bedrock")

        everywhere = pages.get(f"/rules/{RULE}/").content.decode()
        bedrock = pages.get(f"/rules/{RULE}/?scope=provider:bedrock").content.decode()

        assert "1 of 2 active threads would break." in everywhere
        assert f"/threads/{thread_id}/preview/?provider=anthropic&amp;off={RULE}" in everywhere
        assert "1 of 1 active thread would be sent differently." in bedrock
        # Counted, and said to be counted.
        assert "Nobody was called again" in everywhere

    @pytest.mark.parametrize(
        "path", ["no-such-rule/", f"{RULE}/?scope=provider:nobody", f"{RULE}/?scope=x", f"{RULE}/?scope=agent:%00"]
    )
    def test_of_nonsense_says_so(self, pages: Client, path: str) -> None:
        assert pages.get(f"/rules/{path}").status_code in (400, 404)

    def test_costs_the_same_number_of_queries_with_more_uses(
        self, pages: Client, django_assert_num_queries: Any
    ) -> None:
        act()
        with django_assert_num_queries(22):
            pages.get(f"/rules/{RULE}/")
        for _ in range(10):
            act(agent=make_agent())
        with django_assert_num_queries(22):
            pages.get(f"/rules/{RULE}/")


class TestSwitch:
    def switch(self, pages: Client, rule: str = RULE, **values: str) -> Any:
        headers = HTMX if values.get("row") else {}
        return pages.post(f"/rules/{rule}/switch/", {"scope": "", **values}, headers=headers)

    def test_works_as_a_plain_form(self, pages: Client) -> None:
        answer = self.switch(pages, state="off")

        assert answer["Location"] == f"/rules/{RULE}/"
        assert switches_for("anthropic") == {RULE: "off"}
        assert f"{RULE} is off everywhere." in pages.get(answer["Location"]).content.decode()
        assert AuditEvent.objects.get(action="rule.switched").actor == "operator"

    def test_gives_htmx_the_changed_row_and_a_way_back(self, pages: Client) -> None:
        answer = self.switch(pages, state="off", row="1")

        shown = answer.content.decode()
        assert shown.lstrip().startswith(f'<tbody id="rule-{RULE}"')
        assert 'hx-swap-oob="innerHTML:#toasts"' in shown
        assert 'value="default">Undo' in shown
        self.switch(pages, state="default", row="1")
        assert not RuleSetting.objects.exists()

    def test_asks_first_where_requests_of_the_last_days_would_not_be_mended(self, pages: Client) -> None:
        act()

        in_row = self.switch(pages, state="off", row="1").content.decode()
        elsewhere = self.switch(pages, state="off")

        assert not RuleSetting.objects.exists()
        assert "1 of 1 active thread would break." in in_row
        assert 'name="confirm"' in in_row
        assert elsewhere["Location"] == f"/rules/{RULE}/?scope=&ask=off#switch"
        assert "Reason, kept in the audit log" in pages.get(elsewhere["Location"]).content.decode()

    def test_is_done_once_confirmed_and_keeps_the_reason(self, pages: Client) -> None:
        act()

        self.switch(pages, state="off", confirm="1", reason="  testing <b>v2</b> ")

        assert switches_for("anthropic") == {RULE: "off"}
        assert AuditEvent.objects.get().detail["reason"] == "testing <b>v2</b>"
        for address in (f"/rules/{RULE}/", "/rules/trail/"):
            assert "testing &lt;b&gt;v2&lt;/b&gt;" in pages.get(address).content.decode()

    def test_asks_nothing_where_nothing_is_lost(self, pages: Client) -> None:
        act(severity="degrades")
        switch_rule(caller(), RULE, "report")

        self.switch(pages, state="on")

        assert switches_for("anthropic") == {RULE: "on"}

    def test_asks_too_where_taking_a_switch_back_leaves_the_rule_off(self, pages: Client) -> None:
        act()
        switch_rule(caller(), RULE, "off")
        switch_rule(caller(), RULE, "on", provider="anthropic")

        answer = self.switch(pages, state="default", scope="provider:anthropic")

        assert answer["Location"].endswith("ask=default#switch")
        assert "Switch off for anthropic" in " ".join(pages.get(answer["Location"]).content.decode().split())
        assert switches_for("anthropic") == {RULE: "on"}
        self.switch(pages, state="default", scope="provider:anthropic", confirm="1")
        assert switches_for("anthropic") == {RULE: "off"}

    def test_asks_with_the_effect_of_its_own_scope(self, pages: Client) -> None:
        act()

        self.switch(pages, state="off", scope="provider:bedrock")

        assert switches_for("bedrock") == {RULE: "off"}
        assert switches_for("anthropic") == {}

    def test_counts_for_its_scope_only(self, pages: Client) -> None:
        agent = make_agent()

        self.switch(pages, state="report", scope="provider:anthropic")
        self.switch(pages, state="off", scope=f"agent:{agent.id}")

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
        assert self.switch(pages, rule, **values).status_code == status
        assert not RuleSetting.objects.exists()

    def test_is_a_form_and_never_a_link(self, pages: Client) -> None:
        assert pages.get(f"/rules/{RULE}/switch/").status_code == 405


class TestTrail:
    def test_says_who_switched_what_and_undoes_it(self, pages: Client) -> None:
        assert "Nothing was switched yet" in pages.get("/rules/trail/").content.decode()
        pages.post(f"/rules/{RULE}/switch/", {"state": "off", "scope": "provider:anthropic"})

        shown = pages.get("/rules/trail/").content.decode()

        assert "set to off for anthropic" in shown
        assert "had no switch before" in shown
        assert 'value="default"' in shown
        answer = pages.post(
            f"/rules/{RULE}/switch/", {"state": "default", "scope": "provider:anthropic", "next": "trail"}
        )
        assert answer["Location"] == "/rules/trail/"
        assert switches_for("anthropic") == {}

    def test_of_a_family_is_on_the_page_of_each_of_its_rules(self, pages: Client) -> None:
        switch_rule(caller(name="jo"), "cerebras-strip-reasoning-content", "off")

        assert "jo" in pages.get("/rules/cerebras-reasoning-content/").content.decode()


class TestViewer:
    def test_sees_states_and_no_switch(self, viewer: Client) -> None:
        switch_rule(caller(), RULE, "report")

        for address in ("/rules/", f"/rules/{RULE}/", "/rules/matrix/", "/rules/trail/"):
            shown = viewer.get(address).content.decode()
            assert "report" in shown
            assert "/switch/" not in shown
        assert "You may look at rules, not switch them." in viewer.get(f"/rules/{RULE}/").content.decode()

    @pytest.mark.parametrize("values", [{"state": "off"}, {"state": "off", "confirm": "1"}, {"state": "default"}])
    def test_can_t_switch(self, viewer: Client, values: dict[str, str]) -> None:
        switch_rule(caller(), RULE, "report")

        for headers in ({}, HTMX):
            answer = viewer.post(f"/rules/{RULE}/switch/", {"scope": "", **values}, headers=headers)
            assert answer.status_code == 403

        assert switches_for("anthropic") == {RULE: "report"}
