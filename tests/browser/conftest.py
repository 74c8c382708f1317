from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from playwright.sync_api import ConsoleMessage, Page

PASSWORD = "a password for tests"


@pytest.fixture
def site(live_server: Any, page: Page) -> Iterator[Page]:
    """A page of a real browser at the running site, logged in; any error in its console fails the test."""
    get_user_model().objects.create_superuser("operator", password=PASSWORD)
    errors: list[str] = []

    def note(entry: ConsoleMessage) -> None:
        # Chromium itself logs the answer to a form that came back with its errors.
        if entry.type == "error" and "status of 422" not in entry.text:
            errors.append(entry.text)

    page.on("console", note)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(f"{live_server.url}/threads/")
    page.get_by_label("User name").fill("operator")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url("**/threads/")
    yield page
    assert errors == []


@pytest.fixture
def browser_context_args(browser_context_args: dict[str, Any], live_server: Any) -> dict[str, Any]:
    return {**browser_context_args, "base_url": live_server.url}
