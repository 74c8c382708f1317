"""The Connections pages: where providers are reached, whether keys are there, setting one, and a call to try it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

import memory.sandbox
from memory.models import AuditEvent, Job, OperatorPreference, Provider
from memory.providers import ENTRIES
from memory.sandbox import Sandbox
from memory.services import jobs
from memory.services.job_kinds import KINDS
from tests.make import make_agent, make_attempt, make_run, make_thread

pytestmark = pytest.mark.django_db

SECRET = "sk-very-secret-key"
FORM = {
    "protocol": "openai-chat",
    "base_url": "https://llm.test/v1/",
    "key_kind": "env",
    "key_place": "OUR_KEY",
    "headers": "x-team: shop\nx-cost: 4711",
}
HTMX = {"HX-Request": "true"}


@pytest.fixture(scope="module")
def running() -> Iterator[Sandbox]:
    started = memory.sandbox.start()
    yield started
    started.stop()


@pytest.fixture
def own(running: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sandbox]:
    """The sandbox as somebody's own connection with a key."""
    running.clear()
    monkeypatch.setenv("OUR_KEY", SECRET)
    address = f"{running.url}/anthropic/v1"
    Provider.objects.create(id="anthropic", protocol="anthropic-messages", base_url=address, key_ref="env:OUR_KEY")
    yield running
    running.clear()


def shown(response: Any) -> str:
    return str(response.content.decode())


def row_of(html: str, title: str) -> str:
    """The row of a provider, without tags."""
    (row,) = [row for row in re.findall(r"<tr>.*?</tr>", html, re.DOTALL) if f">{title}</a>" in row]
    return " ".join(re.sub(r"<[^>]*>", " ", row).split())


def operator_of(role: str) -> Client:
    user = get_user_model().objects.create_user(f"the-{role}")
    OperatorPreference.objects.create(user=user, role=role)
    client = Client()
    client.force_login(user)
    return client


class TestList:
    def test_says_where_each_is_reached_and_whether_its_key_is_there(
        self, pages: Client, own: Sandbox, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("GEMINI_API_KEY", "XAI_API_KEY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("GROQ_API_KEY", SECRET)
        Provider.objects.create(id="bedrock", protocol="bedrock-converse", base_url="https://b.test", key_ref="aws:eu")
        make_agent(name="<b>Shop</b>", fallback_models=["gemini/gemini-3-pro-preview"])
        html = shown(pages.get("/connections/"))
        assert f"{own.url}/anthropic/v1" in html
        assert "found variable OUR_KEY &lt;b&gt;Shop&lt;/b&gt;" in row_of(html, "Anthropic")
        assert "gemini-contents not found variable GEMINI_API_KEY &lt;b&gt;" in row_of(html, "Google Gemini")
        assert "found variable GROQ_API_KEY no agent" in row_of(html, "Groq")
        assert "looked for at each call profile eu of AWS" in row_of(html, "Amazon Bedrock")
        assert "1 provider that agents use has no key here." in html
        own_ones, ready, others = (
            html.index(words) for words in (">Set here<", ">Built in, ready or in use<", "Built in, without a key<")
        )
        places = [html.index(f">{title}</a>") for title in ("Anthropic", "Google Gemini", "xAI")]
        assert own_ones < places[0] < ready < places[1] < others < places[2]
        assert SECRET not in html and "<b>Shop" not in html

    def test_says_how_its_last_calls_went(self, pages: Client, own: Sandbox) -> None:
        run = make_run(make_thread())
        make_attempt(run)
        make_attempt(run, status=529, error_class="overloaded", error_message="<i>no</i>", decision="give-up")
        own_call = make_run(make_thread(), provider="openai", is_own_call=True)
        make_attempt(own_call, status=401, error_class="authentication", decision="give-up")
        html = shown(pages.get("/connections/"))
        assert "overloaded 2 calls, 1 failed now" in row_of(html, "Anthropic")
        assert "not lately" in row_of(html, "OpenAI")

    def test_without_any_key_says_what_to_do(self, pages: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        for entry in ENTRIES.values():
            monkeypatch.delenv(entry.key_variable or "NONE", raising=False)
        assert "No provider is ready yet" in shown(pages.get("/connections/"))

    def test_costs_the_same_number_of_queries_with_more_rows(
        self, pages: Client, own: Sandbox, django_assert_num_queries: Any
    ) -> None:
        with django_assert_num_queries(6):
            pages.get("/connections/")
        for _ in range(3):
            make_agent(), make_attempt(make_run(make_thread()))
        Provider.objects.create(id="groq", protocol="openai-chat", base_url="https://x.test")
        with django_assert_num_queries(6):
            pages.get("/connections/")

    def test_is_to_look_at_for_who_may_not_change(self, own: Sandbox) -> None:
        for role, may_change, may_test in (("viewer", False, False), ("operator", False, True), ("admin", True, True)):
            client = operator_of(role)
            assert ("/connections/new/" in shown(client.get("/connections/"))) is may_change
            html = shown(client.get("/connections/anthropic/"))
            assert ("/connections/anthropic/edit/" in html) is may_change
            assert ("/connections/anthropic/test/" in html) is may_test
        assert operator_of("reader").post("/connections/anthropic/remove/").status_code == 403
        assert Provider.objects.exists()


class TestPage:
    def test_names_who_uses_it_and_its_calls(self, pages: Client, own: Sandbox) -> None:
        agent = make_agent(name="Shop", model="openai/gpt-4o", fallback_models=["anthropic/claude-opus-4-6"])
        run = make_run(make_thread(), model_id="claude-<i>x</i>")
        make_attempt(run, status=200)
        html = shown(pages.get("/connections/anthropic/"))
        assert f"?agent={agent.id}" in html and "when others fail" in html
        assert f"/runs/{run.id}/" in html and "claude-&lt;i&gt;x&lt;/i&gt;" in html
        assert "sent in the header x-api-key" in html
        assert SECRET not in html

    def test_of_nobody_is_404(self, pages: Client) -> None:
        for address in ("/connections/nobody/", "/connections/nobody/edit/", "/connections/a%00b/"):
            assert pages.get(address).status_code == 404
        assert pages.post("/connections/nobody/test/", {"model": "x"}).status_code == 404

    def test_never_shows_a_key_that_stands_where_its_name_should(self, pages: Client) -> None:
        Provider.objects.create(id="openai", protocol="openai-chat", base_url="https://x.test", key_ref=SECRET)
        for address in ("/connections/", "/connections/openai/", "/connections/openai/edit/"):
            assert SECRET not in shown(pages.get(address))


class TestForm:
    def test_sets_a_connection(self, pages: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OUR_KEY", SECRET)
        assert pages.get("/connections/new/?provider=vllm")["Location"] == "/connections/vllm/edit/"
        assert "http://localhost:8000/v1" in shown(pages.get("/connections/vllm/edit/"))
        response = pages.post("/connections/vllm/edit/", FORM, follow=True)
        assert response.redirect_chain == [("/connections/vllm/", 302)]
        assert "vLLM is reached at https://llm.test/v1 from the next call on." in shown(response)
        row = Provider.objects.get()
        assert (row.id, row.protocol, row.base_url) == ("vllm", "openai-chat", "https://llm.test/v1")
        assert (row.key_ref, row.headers) == ("env:OUR_KEY", {"x-team": "shop", "x-cost": "4711"})
        assert AuditEvent.objects.get(action="connection.created").actor == "operator"
        assert SECRET not in shown(response)

    def test_changes_what_was_changed_and_keeps_headers_it_does_not_show(self, pages: Client) -> None:
        pages.post("/connections/vllm/edit/", FORM)
        html = shown(pages.get("/connections/vllm/edit/"))
        assert "x-cost: …\nx-team: …" in html and "4711" not in html
        given = {**FORM, "base_url": "https://other.test", "headers": "x-team: …\r\nx-new: a:b\r\n"}
        pages.post("/connections/vllm/edit/", given)
        row = Provider.objects.get()
        assert (row.base_url, row.headers) == ("https://other.test", {"x-team": "shop", "x-new": "a:b"})
        assert AuditEvent.objects.get(action="connection.updated").detail["fields"] == ["base_url", "headers"]
        same = {**given, "headers": "x-new: …\nx-team: …"}
        assert "Nothing was changed." in shown(pages.post("/connections/vllm/edit/", same, follow=True))
        assert AuditEvent.objects.filter(action="connection.updated").count() == 1

    def test_takes_the_vendors_address_where_none_is_given(self, pages: Client) -> None:
        given = {**FORM, "protocol": "anthropic-messages", "base_url": "", "key_kind": "", "headers": ""}
        html = shown(pages.post("/connections/deepseek/edit/", given, follow=True))
        assert "https://api.deepseek.com/anthropic/v1" in html
        assert (Provider.objects.get().base_url, Provider.objects.get().key_ref) == ("", "")

    @pytest.mark.parametrize(("kind", "place", "ref"), [("aws", "eu", "aws:eu"), ("google", "odd", "google:")])
    def test_takes_the_credentials_of_clouds(self, pages: Client, kind: str, place: str, ref: str) -> None:
        pages.post("/connections/vertex/edit/", {**FORM, "key_kind": kind, "key_place": place})
        assert Provider.objects.get().key_ref == ref

    @pytest.mark.parametrize(
        ("change", "sentence"),
        [
            ({"protocol": "smoke"}, "is not supported"),
            ({"base_url": "ftp://x"}, "Expected an http or https address"),
            ({"base_url": "https://u:p@x.test"}, "no key belongs there"),
            ({"key_place": ""}, "Name the variable that holds the key"),
            ({"key_kind": "file", "key_place": ""}, "Give the path of the file"),
            ({"key_kind": "odd"}, "Choose where its key is"),
            ({"key_place": "COMPAT_ADMIN_SECRET_KEY"}, "the site’s own"),
            ({"key_place": "sk-ant-api03-very-secret"}, "This looks like a key"),
            ({"headers": "no colon"}, "Write each header on a line of its own"),
            ({"headers": "a: b\nA: c"}, "Two lines set A: keep one"),
            ({"headers": "x-new: …"}, "Give a value for x-new"),
            ({"headers": "x-api-key: secret"}, "is a place for a key"),
        ],
    )
    def test_that_makes_no_sense_comes_back_with_its_values(
        self, pages: Client, change: dict[str, str], sentence: str
    ) -> None:
        response = pages.post("/connections/vllm/edit/", {**FORM, **change})
        html = shown(response).replace("&#x27;", "’")
        assert response.status_code == 422
        assert sentence in html
        assert "https://llm.test/v1/" in html or "base_url" in change
        assert 'aria-invalid="true"' in html and "sk-ant-api03" not in html
        assert not Provider.objects.exists()

    def test_needs_an_address_where_the_vendor_has_none(self, pages: Client) -> None:
        response = pages.post("/connections/azure/edit/", {**FORM, "base_url": ""})
        assert response.status_code == 422
        assert "Azure has no address of its own over openai-chat: give one" in shown(response)

    def test_is_offered_for_those_without_a_connection(self, pages: Client, own: Sandbox) -> None:
        html = shown(pages.get("/connections/new/"))
        assert '<option value="vllm">' in html and '<option value="anthropic">' not in html
        assert "There is no such provider" in shown(pages.get("/connections/new/?provider=<b>"))

    def test_is_removed_after_a_question(self, pages: Client, own: Sandbox) -> None:
        make_agent(name="<b>Shop</b>")
        question = shown(pages.get("/connections/anthropic/remove/"))
        assert "https://api.anthropic.com/v1" in question and "ANTHROPIC_API_KEY" in question
        assert "1 agent uses it" in question and "<b>Shop" not in question
        assert Provider.objects.exists()
        html = shown(pages.post("/connections/anthropic/remove/", follow=True))
        assert "The connection of Anthropic is removed." in html
        assert not Provider.objects.exists()
        assert pages.post("/connections/anthropic/remove/").status_code == 404


class TestTest:
    def test_tells_that_it_works(self, pages: Client, own: Sandbox) -> None:
        response = pages.post("/connections/anthropic/test/", {"model": "claude-sonnet-4-5"}, headers=HTMX)
        html = shown(response)
        assert "It waits for a worker." in html and 'hx-trigger="every 1s"' in html and "<html" not in html
        assert own.requests() == []
        assert jobs.do_job(Job.objects.get().id, KINDS)
        fragment = shown(pages.get("/connections/anthropic/", headers=HTMX))
        assert "It works: Anthropic answered in" in fragment
        assert "hx-trigger" not in fragment and "<html" not in fragment
        assert "asked by <bdi>operator</bdi>" in shown(pages.get("/connections/anthropic/"))
        assert len(own.requests("anthropic")) == 1

    def test_without_script_leads_back_to_the_page(self, pages: Client, own: Sandbox) -> None:
        response = pages.post("/connections/anthropic/test/", {"model": "claude-sonnet-4-5"})
        assert response["Location"] == "/connections/anthropic/#test"

    def test_without_a_model_says_so_in_its_place(self, pages: Client, own: Sandbox) -> None:
        for headers in ({}, HTMX):
            response = pages.post("/connections/anthropic/test/", {"model": "<a b>"}, headers=headers)
            html = shown(response)
            assert response.status_code == 422
            assert "name a model as the provider spells it" in html and 'value="&lt;a b&gt;"' in html
            assert ("<html" in html) is (not headers)
        assert not Job.objects.exists()

    @pytest.mark.parametrize(
        ("script", "title", "hint"),
        [
            ({"status": 401}, "Anthropic refuses the key (401).", "Look at what variable OUR_KEY holds"),
            ({"status": 429}, "asks to come back later (429).", "in a minute"),
            ({"status": 404}, "knows no such model or address (404).", "how the model is spelt"),
            ({"status": 200, "body": "<html>"}, "not over anthropic-messages (200).", "another service’s"),
            ({"drop": "before"}, "Nobody answered at http://127.0.0.1:", "whether the workers’ machine"),
        ],
    )
    def test_says_what_is_in_the_way(
        self, pages: Client, own: Sandbox, script: dict[str, Any], title: str, hint: str
    ) -> None:
        own.script("anthropic", **script)
        pages.post("/connections/anthropic/test/", {"model": "claude-sonnet-4-5"})
        assert jobs.do_job(Job.objects.get().id, KINDS)
        html = shown(pages.get("/connections/anthropic/"))
        assert title in html and hint in html

    def test_shows_the_providers_words_as_words_and_to_readers_only(self, pages: Client, own: Sandbox) -> None:
        words = f"<script>alert(1)</script> {SECRET} \u202e"
        own.script("anthropic", status=400, body={"type": "error", "error": {"type": "x", "message": words}})
        pages.post("/connections/anthropic/test/", {"model": "claude-sonnet-4-5"})
        job = Job.objects.get()
        assert jobs.do_job(job.id, KINDS)
        for address in ("/connections/anthropic/", f"/jobs/{job.id}/"):
            html = shown(pages.get(address))
            assert "&lt;script&gt;alert(1)" in html and "U+202E" in html
            assert "<script>alert" not in html and SECRET not in html
        assert "It was tried, and did not work." in html
        assert "alert(1)" not in shown(operator_of("viewer").get("/connections/anthropic/"))

    def test_that_was_cancelled_or_lost_says_so(self, pages: Client, own: Sandbox) -> None:
        pages.post("/connections/anthropic/test/", {"model": "claude-sonnet-4-5"})
        Job.objects.update(status="failed", error="Whoever did it was gone")
        html = shown(pages.get("/connections/anthropic/"))
        assert "The test was not done: it failed." in html and "Whoever did it was gone" in html
