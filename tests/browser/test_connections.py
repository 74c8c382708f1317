"""Connections in a real browser: set by keyboard, tested, removed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

import memory.sandbox
from memory.models import Job, Provider
from memory.sandbox import Sandbox
from memory.services import jobs
from memory.services.job_kinds import KINDS

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def sandbox(settings: Any) -> Iterator[Sandbox]:
    started = memory.sandbox.start()
    settings.SANDBOX_URL = started.url
    yield started
    started.stop()


def test_one_is_set_by_keyboard_tested_and_removed(site: Page, sandbox: Sandbox) -> None:
    site.get_by_role("navigation", name="Main").get_by_role("link", name="Connections").click()
    site.get_by_role("link", name="Add a connection").click()
    site.get_by_label("Provider").select_option("openai")
    site.get_by_role("button", name="Go on").click()

    site.get_by_label("Address").fill("nowhere")
    site.keyboard.press("Enter")
    expect(site.get_by_label("Address")).to_have_attribute("aria-invalid", "true")
    site.get_by_label("Address").fill("sandbox:openai")
    site.get_by_label("Where its key is").select_option("")
    site.get_by_label("Further headers").fill("x-team: shop")
    site.get_by_role("button", name="Save").click()
    expect(site.get_by_text("OpenAI is reached at sandbox:openai")).to_be_visible()
    assert Provider.objects.get().headers == {"x-team": "shop"}

    site.get_by_label("Model").fill("gpt-4o")
    site.keyboard.press("Enter")
    expect(site.locator("#tested")).to_contain_text("It waits for a worker.")
    assert jobs.do_job(Job.objects.get().id, KINDS)
    # The fragment asks again by itself, and stops with the answer.
    expect(site.locator("#tested")).to_contain_text("It works: OpenAI answered in")
    expect(site.locator("#tested")).not_to_have_attribute("hx-trigger", "every 1s")
    expect(site.get_by_label("Model")).to_have_value("gpt-4o")

    site.get_by_role("link", name="Remove…").click()
    site.get_by_role("button", name="Remove it").click()
    expect(site.get_by_text("The connection of OpenAI is removed.")).to_be_visible()
    assert not Provider.objects.exists()
