"""Who gets in: nobody without logging in, at any address."""

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import reverse

from compat_admin.dashboard.account import MAX_FAILURES
from compat_admin.dashboard.urls import urlpatterns
from memory.models import AuditEvent, OperatorPreference, Thread
from tests.dashboard.conftest import PASSWORD
from tests.make import make_run, make_thread

ARGUMENTS = {
    "agent_id": "a",
    "provider_id": "anthropic",
    "thread_id": "thread-1",
    "seq": 1,
    "n": 0,
    "version": 1,
    "rule_id": "any-blank-text",
    "run_id": "run-1",
    "number": 1,
    "which": "request",
    "key_id": 1,
    "user_id": 1,
    "job_id": "job-1",
}
CLOSED = [pattern for pattern in urlpatterns if pattern.name not in ("login", "set-password")]


def address(pattern: Any) -> str:
    wanted = pattern.pattern.converters
    return reverse(pattern.name, kwargs={name: ARGUMENTS[name] for name in wanted})


@pytest.mark.django_db
@pytest.mark.parametrize("pattern", CLOSED, ids=lambda pattern: pattern.name)
class TestOutsider:
    def test_is_sent_to_the_login(self, client: Client, pattern: Any) -> None:
        thread = make_thread(id="thread-1", messages=2)
        make_run(thread, id="run-1", status="failed")

        for answer in (client.get(address(pattern)), client.post(address(pattern))):
            assert answer.status_code == 302
            assert answer["Location"].startswith("/login/?next=")

        assert Thread.objects.filter(id="thread-1").exists()

    def test_is_not_shown_a_login_inside_a_page(self, client: Client, pattern: Any) -> None:
        answer = client.get(address(pattern), headers={"HX-Request": "true", "HX-Current-URL": "/rules/"})

        assert answer["HX-Redirect"] == "/login/?next=/rules/"
        assert not answer.content


@pytest.mark.django_db
class TestLogin:
    def log_in(self, client: Client, password: str, **fields: str) -> Any:
        return client.post("/login/", {"username": "operator", "password": password, **fields})

    def test_leads_to_the_page_that_was_asked_for(self, client: Client, operator: Any) -> None:
        assert self.log_in(client, PASSWORD, next="/rules/")["Location"] == "/rules/"

    @pytest.mark.parametrize("elsewhere", ["https://evil.example/", "//evil.example", "javascript:alert(1)"])
    def test_never_leads_to_another_site(self, client: Client, operator: Any, elsewhere: str) -> None:
        assert self.log_in(client, PASSWORD, next=elsewhere)["Location"] == "/"

    def test_says_the_same_for_a_wrong_name_and_a_wrong_password(self, client: Client, operator: Any) -> None:
        wrong = self.log_in(client, "wrong").content.decode()
        unknown = self.log_in(client, PASSWORD, username="nobody").content.decode()

        sentence = "User name and password don’t belong together."
        assert sentence in wrong
        assert sentence in unknown

    def test_closes_after_ten_failures_even_for_the_right_password(self, client: Client, operator: Any) -> None:
        for _ in range(MAX_FAILURES):
            assert self.log_in(client, "wrong").status_code == 403

        assert self.log_in(client, PASSWORD).status_code == 429
        assert "_auth_user_id" not in client.session
        # Somebody else's address is not closed by that.
        assert (
            client.post("/login/", {"username": "operator", "password": PASSWORD}, REMOTE_ADDR="10.0.0.9").status_code
            == 302
        )

    def test_takes_no_failure_into_the_log_once_closed(self, client: Client, operator: Any) -> None:
        for _ in range(MAX_FAILURES + 5):
            self.log_in(client, "wrong")

        assert AuditEvent.objects.filter(action="login.failed").count() == MAX_FAILURES

    def test_bears_a_name_no_database_takes(self, client: Client) -> None:
        assert self.log_in(client, "x", username="a\x00b").status_code == 403

    def test_lets_nobody_in_whose_account_is_closed(self, client: Client, operator: Any) -> None:
        get_user_model().objects.update(is_active=False)

        assert self.log_in(client, PASSWORD).status_code == 403


class TestLogout:
    def test_needs_a_form(self, pages: Client) -> None:
        assert pages.get("/logout/").status_code == 405
        assert pages.post("/logout/")["Location"] == "/login/"
        assert pages.get("/threads/").status_code == 302


class TestPreferences:
    def test_a_theme_is_kept_and_the_page_comes_back(self, pages: Client) -> None:
        answer = pages.post("/preferences/", {"theme": "dark", "next": "/rules/?q=id"})

        assert answer["Location"] == "/rules/?q=id"
        assert 'data-theme="dark"' in pages.get("/rules/").content.decode()

    def test_times_are_in_the_operators_zone_with_utc_beside_them(self, pages: Client) -> None:
        thread = make_thread(messages=1)
        pages.post("/preferences/", {"time_zone": "Asia/Tokyo"})

        page = pages.get(f"/threads/{thread.id}/").content.decode()

        assert 'title="2026-03-01 09:00:00 UTC">1 Mar' in page
        assert "18:00</time>" in page

    @pytest.mark.parametrize(
        "values", [{"theme": "pink"}, {"time_zone": "Mars/Base"}, {"time_zone": "../../etc/passwd"}]
    )
    def test_nonsense_is_refused(self, pages: Client, values: dict[str, str]) -> None:
        assert pages.post("/preferences/", values).status_code == 422
        assert not OperatorPreference.objects.exists()

    def test_never_lead_to_another_site(self, pages: Client) -> None:
        assert pages.post("/preferences/", {"theme": "dark", "next": "//evil.example"})["Location"] == "/"
