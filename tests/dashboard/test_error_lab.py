"""The error lab: the decision a run would make, in words, and what it would change about the request."""

import re

import pytest
from django.test import Client
from django.urls import reverse

from compat_admin.dashboard import error_lab
from compat_admin.dashboard.error_examples import EXAMPLES, ErrorExample
from memory.models import Message, Run
from memory.services import agents
from tests.make import add_messages, caller, make_agent, make_thread, message, text, tool_call

pytestmark = pytest.mark.django_db
RETRY = {"id": "stream-error-retry-processor", "options": {"max_retries": 2}}


def explain(pages: Client, example: ErrorExample, **more: object) -> str:
    fields = ("provider", "model", "status", "headers", "body")
    values = {name: getattr(example, name) for name in fields}
    page = pages.post(reverse("error-lab"), {**values, "agent_id": "", "thread_id": "", "times": "1", **more})
    assert page.status_code == 200, page.content.decode()
    html: str = page.content.decode()
    return html


def named(title: str) -> ErrorExample:
    return next(example for example in EXAMPLES if example.title == title)


def test_opens_with_an_example(pages: Client) -> None:
    assert "Overloaded" in pages.get(reverse("error-lab")).content.decode()
    assert "context_length_exceeded" in pages.get(reverse("error-lab"), {"example": "5"}).content.decode()
    assert pages.get(reverse("error-lab"), {"example": "999"}).status_code == 200


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.title)
def test_every_example_has_a_class(pages: Client, example: ErrorExample) -> None:
    html = explain(pages, example)
    assert "<b>unknown</b>" not in html and "<dt>Class</dt>" in html


def test_says_when_a_run_would_try_again(pages: Client) -> None:
    agents.create_agent(caller(), {"id": "patient", "name": "P", "model": "openai/gpt-5", "error_processors": [RETRY]})
    html = explain(pages, named("Rate limit with a wait"), agent_id="patient")
    assert "It is tried again after 1.25 s, with the same request." in html, html[html.index("note-box") :][:900]
    html = explain(pages, named("Rate limit with a wait"), agent_id="patient", times="3")
    assert "It is given up." in html


def test_shows_the_cure_on_a_thread_and_changes_nothing(pages: Client) -> None:
    compat = {"id": "provider-history-compat", "options": {"rules": "reference"}}
    make_agent(id="curing", input_processors=[{"id": "message-history"}, compat])
    thread = make_thread("ada")
    call = tool_call("call|1", "result", result="sunny")
    add_messages(thread, text("weather?"), message(call, {"type": "text", "text": "It is sunny."}), text("sure?"))
    before = list(Message.objects.values_list("content", "version"))
    html = explain(pages, named("Tool ids of another provider"), agent_id="curing", thread_id=thread.id)
    assert "It is tried again at once, with a changed request." in html
    gone, added = (re.findall(rf'class="l {sign}">.*?</div>', html) for sign in ("gone", "add"))
    assert gone and all("call|1" in line for line in gone)
    assert len(added) == len(gone) and not any("call|1" in line for line in added)
    assert list(Message.objects.values_list("content", "version")) == before
    assert not Run.objects.exists()


def test_of_a_long_thread_only_what_differs_is_compared() -> None:
    before = [str(number) for number in range(9000)]
    after = [*before[:4500], "new", *before[4501:]]
    assert error_lab._between(before, after) == (before[4498:4503], after[4498:4503])


def test_what_does_not_fit_is_said_beside_what_was_given(pages: Client) -> None:
    values = {"provider": "anthropic", "model": "x", "status": "200", "headers": "", "body": "{}", "times": "1"}
    for wrong, said in (
        ({}, "expected the status of an error"),
        ({"status": "4x"}, "expected a whole number"),
        ({"status": "500", "headers": "nonsense"}, "expected a header a line"),
        ({"status": "500", "thread_id": "nothing"}, "no such thread"),
        ({"status": "500", "times": "900"}, "expected 1 to 50"),
    ):
        page = pages.post(reverse("error-lab"), {**values, **wrong})
        assert page.status_code == 422 and said in page.content.decode(), wrong
