"""The main job in a real browser, under the site's own security policy."""

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from memory.models import RuleSetting, Thread
from memory.services.rules import switches_for
from tests.make import add_messages, make_attempt, make_run, make_thread, message, text, tool_call

pytestmark = pytest.mark.django_db(transaction=True)

RULE = "anthropic-tool-id-charset"
KIMI = {"provider": "moonshot", "protocol": "openai-chat", "modelId": "kimi-k2-thinking-with-a-very-long-name"}


def foreign_thread() -> Thread:
    """A thread with much that hurts: foreign ids, other scripts, long words, markup, images from elsewhere."""
    thread = make_thread(f"tenant/{'very-' * 30}long-owner", title="Refund 发货延迟 طلب استرداد " + "W" * 120)
    add_messages(
        thread,
        text("When does it leave? <script>document.title = 'broken in'</script> " + "x" * 400),
        message(
            {"type": "reasoning", "reasoning": "Look it up " * 40},
            tool_call("functions.timetable:0", state="result", result={"dep": "08:05", "k" * 200: "v" * 3000}),
            {"type": "file", "mimeType": "image/png", "data": "https://example.invalid/spy.png"},
            metadata=KIMI,
        ),
        text("شكرا جزيلا"),
    )
    run = make_run(thread, status="failed", error_message="e" * 300, attempt_count=1)
    make_attempt(run, decision="give-up", status=529, error_message="overloaded " * 30)
    return thread


def test_a_thread_is_previewed_a_rule_switched_off_and_the_difference_seen(site: Page) -> None:
    thread = foreign_thread()
    site.goto("/threads/")
    site.locator("#threads-rows a.title").click()
    expect(site.get_by_text("08:05")).to_be_visible()
    assert site.title() != "broken in"

    site.get_by_role("link", name="X-ray").first.click()
    site.locator("select[name=provider]").select_option("anthropic")
    site.get_by_role("button", name="Show").click()
    expect(site.locator("#result")).to_contain_text("functions_timetable_0")
    expect(site.locator("#result .rule-chip").filter(has_text=RULE).first).to_be_visible()

    site.goto(f"/rules/#rule-{RULE}")
    row = site.locator(f"#rule-{RULE}")
    row.get_by_role("button", name="off").click()
    expect(site.locator(".toast")).to_contain_text(f"{RULE} is off everywhere.")
    expect(row.get_by_role("button", name="off")).to_have_attribute("aria-pressed", "true")
    assert switches_for("anthropic") == {RULE: "off"}

    site.goto(f"/threads/{thread.id}/preview/?provider=anthropic")
    expect(site.locator("#result")).to_contain_text("functions.timetable:0")
    expect(site.locator("#result")).not_to_contain_text("functions_timetable_0")


def test_a_switch_is_undone_from_its_toast(site: Page) -> None:
    site.goto("/rules/")
    site.locator(f"#rule-{RULE}").get_by_role("button", name="report").click()
    site.get_by_role("button", name="Undo").click()

    expect(site.locator(".toast")).to_contain_text(f"{RULE} is on everywhere.")
    assert not RuleSetting.objects.exists()


def test_older_threads_come_without_a_new_page_and_the_way_back_works(site: Page) -> None:
    for i in range(45):
        make_thread(title=f"thread {i:02}")
    site.goto("/threads/")
    site.get_by_role("link", name="Older").click()

    expect(site.get_by_text("thread 00")).to_be_visible()
    site.go_back()
    expect(site.get_by_text("thread 44")).to_be_visible()


def test_a_history_is_pasted(site: Page) -> None:
    site.goto("/preview/")
    site.get_by_label("The history, as JSON").fill('{"messages": [')
    site.get_by_role("button", name="Preview").click()
    expect(site.get_by_role("alert")).to_contain_text("not JSON")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_scrolls_sideways_on_a_phone(site: Page, scheme: Any) -> None:
    thread = foreign_thread()
    run = thread.runs.get()
    site.emulate_media(color_scheme=scheme)
    site.set_viewport_size({"width": 390, "height": 844})
    for address in (
        "/threads/",
        f"/threads/{thread.id}/",
        f"/threads/{thread.id}/preview/?provider=anthropic",
        f"/threads/{thread.id}/delete/",
        "/preview/",
        "/rules/",
        "/rules/matrix/",
        "/rules/trail/",
        f"/rules/{RULE}/",
        f"/rules/{RULE}/?ask=off",
        "/runs/",
        f"/runs/{run.id}/",
        "/agents/",
        "/connections/",
        "/connections/anthropic/",
        "/connections/anthropic/edit/",
        "/connections/new/",
        "/preferences/",
    ):
        site.goto(address)
        assert site.evaluate("document.documentElement.scrollWidth") <= 390, address
        site.get_by_label("Menu", exact=True).first.click()
        expect(site.locator(".phone-nav").get_by_role("link", name="Rules")).to_be_visible()


def test_the_theme_is_switched_and_kept(site: Page) -> None:
    site.goto("/rules/")
    before = site.evaluate("getComputedStyle(document.body.parentElement).backgroundColor")
    site.get_by_role("button", name="Switch to the dark theme").click()

    expect(site.locator("html")).to_have_attribute("data-theme", "dark")
    assert site.url.endswith("/rules/")
    assert site.evaluate("getComputedStyle(document.body.parentElement).backgroundColor") != before
    expect(site.get_by_role("button", name="Switch to the light theme")).to_be_visible()


@pytest.mark.browser_context_args(java_script_enabled=False)
def test_a_rule_is_switched_without_script(site: Page) -> None:
    site.goto("/rules/")
    site.locator(f"#rule-{RULE}").get_by_role("button", name="off").click()

    expect(site.locator(".notice")).to_contain_text(f"{RULE} is off everywhere.")
    assert switches_for("anthropic") == {RULE: "off"}
