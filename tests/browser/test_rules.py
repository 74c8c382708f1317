"""Rules in a real browser: the matrix by keyboard, a switch that asks, is done and undone, the x-ray's keys."""

import re
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone
from playwright.sync_api import Page, expect

from memory.models import AuditEvent, RuleSetting
from memory.processors.changes import Placed
from memory.services import rule_use
from memory.services.rules import switches_for
from tests.browser.test_dashboard import foreign_thread
from tests.make import make_run, make_thread

pytestmark = pytest.mark.django_db(transaction=True)

RULE = "anthropic-tool-id-charset"


def act() -> None:
    """A run whose request this rule mended."""
    change = Placed(1, RULE, "", "breaks", None, None, (), "m", "a", "b", "reason", "same")
    with transaction.atomic():
        rule_use.record(
            make_run(make_thread(title="the parcel")), "anthropic", "anthropic-messages", [change], [], timezone.now()
        )


def test_the_matrix_is_walked_by_arrows_to_a_rule_that_is_switched_off_and_undone(site: Page) -> None:
    act()
    site.goto("/rules/matrix/")
    cell = site.locator(f".matrix a[href='/rules/{RULE}/?scope=provider:anthropic']").first
    expect(cell).to_have_text("on1")
    # One stop for Tab, however many cells there are.
    assert site.locator(".matrix a.cell[tabindex='0']").count() == 1
    cell.focus()
    site.keyboard.press("ArrowRight")
    expect(site.locator(".matrix a.cell:focus")).to_have_attribute("href", re.compile(r"scope=provider:vertex$"))
    site.keyboard.press("ArrowLeft")
    expect(cell).to_be_focused()
    site.keyboard.press("Enter")

    expect(site.get_by_role("heading", level=1)).to_contain_text("Tool call ids")
    switch = site.locator("#switch")
    expect(switch).to_contain_text("1 of 1 active thread would break.")
    switch.locator("li.here").get_by_role("button", name="off").click()
    expect(switch.get_by_role("heading", name=f"Switch off {RULE} for anthropic?")).to_be_visible()
    assert not RuleSetting.objects.exists()
    switch.get_by_label("Reason, kept in the audit log").fill("a newer API")
    switch.get_by_role("button", name="Switch off for anthropic").click()
    expect(site.locator(".notice")).to_contain_text(f"{RULE} is off for anthropic.")
    assert switches_for("anthropic") == {RULE: "off"}

    site.goto("/rules/trail/")
    expect(site.locator(".trail")).to_contain_text("a newer API")
    site.locator(".trail").get_by_role("button", name="Undo").or_(
        site.get_by_role("button", name=re.compile("back as before"))
    ).first.click()
    expect(site.locator(".notice")).to_contain_text(f"{RULE} is on for anthropic.")
    assert not RuleSetting.objects.exists()
    assert [event.action for event in AuditEvent.objects.order_by("id")][-2:] == ["rule.switched", "rule.reset"]


def test_a_row_asks_in_its_place_and_can_be_left_as_it_is(site: Page) -> None:
    act()
    site.goto("/rules/")
    row = site.locator(f"#rule-{RULE}")
    row.get_by_role("button", name="off", exact=True).click()
    expect(row).to_contain_text("1 of 1 active thread would break.")

    row.get_by_role("link", name="Keep it on").click()
    expect(row).not_to_contain_text("would break")
    assert not RuleSetting.objects.exists()
    row.get_by_role("button", name="off", exact=True).click()
    row.get_by_role("button", name="Switch off everywhere").click()
    expect(row.get_by_role("button", name="off", exact=True)).to_have_attribute("aria-pressed", "true")
    site.locator(".toast").get_by_role("button", name="Undo").click()
    expect(row.get_by_role("button", name="on", exact=True)).to_have_attribute("aria-pressed", "true")
    assert not RuleSetting.objects.exists()


def test_the_catalogue_is_filtered_in_place(site: Page) -> None:
    asked: list[str] = []
    site.goto("/rules/")
    site.on("request", lambda request: asked.append(request.url))
    site.keyboard.press("/")
    expect(site.get_by_label("Find a rule")).to_be_focused()
    site.keyboard.type("charset letters")
    site.keyboard.press("Enter")
    expect(site.locator("#rules-rows tbody")).to_have_count(1)
    expect(site).to_have_url(re.compile(r"q=charset"))
    # A link to another page: what is chosen before that has come goes with the old one.
    with site.expect_navigation(url=lambda url: "q=charset" not in url):
        site.get_by_label("Remove filter Words").click()
    assert len([url for url in asked if "q=charset" in url]) == 1
    site.get_by_label("Step").select_option("9")
    expect(site.locator("#rules-rows")).to_contain_text("anthropic-cache-control-limit")
    expect(site.locator(f"#rule-{RULE}")).to_have_count(0)


def test_changes_of_an_x_ray_are_walked_by_keys(site: Page) -> None:
    thread = foreign_thread()
    site.goto(f"/threads/{thread.id}/preview/?provider=anthropic")
    expect(site.locator("#result .chgnote")).not_to_have_count(0)

    site.keyboard.press("n")
    expect(site.locator("#c1")).to_have_class(re.compile(r"\bat\b"))
    expect(site.locator("#c1 > a.mark")).to_be_focused()
    site.keyboard.press("n")
    expect(site.locator("#c2")).to_have_class(re.compile(r"\bat\b"))
    expect(site.locator("#c1")).not_to_have_class(re.compile(r"\bat\b"))
    site.keyboard.press("[")
    expect(site).to_have_url(re.compile(r"step=\d"))
    expect(site.locator("#result .steps a.did[aria-current]")).to_have_count(1)


@pytest.mark.browser_context_args(java_script_enabled=False)
def test_a_rule_is_asked_for_and_switched_without_script(site: Page) -> None:
    act()
    site.goto("/rules/")
    site.locator(f"#rule-{RULE}").get_by_role("button", name="off").click()

    expect(site.locator("#switch")).to_contain_text("1 of 1 active thread would break.")
    site.get_by_role("button", name="Switch off everywhere").click()
    expect(site.locator(".notice")).to_contain_text(f"{RULE} is off everywhere.")
    assert switches_for("anthropic") == {RULE: "off"}


ACCESSIBLE = """() => {
  const faults = [];
  const seen = new Set();
  for (const node of document.querySelectorAll("[id]")) {
    if (seen.has(node.id)) faults.push(`id twice: ${node.id}`);
    seen.add(node.id);
  }
  for (const node of document.querySelectorAll("a[href^='#']")) {
    const id = decodeURIComponent(node.getAttribute("href").slice(1));
    if (id && !document.getElementById(id)) faults.push(`leads nowhere: #${id}`);
  }
  const named = (node) => node.getAttribute("aria-label") || node.title || node.textContent.trim();
  for (const node of document.querySelectorAll("a[href], button")) {
    if (!named(node)) faults.push(`no name: ${node.outerHTML.slice(0, 80)}`);
  }
  for (const node of document.querySelectorAll("input:not([type=hidden]), select, textarea")) {
    if (!node.labels.length && !node.ariaLabel) faults.push(`no label: ${node.outerHTML.slice(0, 80)}`);
  }
  let level = 0;
  for (const node of document.querySelectorAll("main h1, main h2, main h3, main h4")) {
    const own = Number(node.tagName[1]);
    if (own > level + 1) faults.push(`heading jumps: ${node.textContent.trim()}`);
    level = own;
  }
  if (document.querySelectorAll("h1").length !== 1) faults.push("not one h1");
  for (const node of document.querySelectorAll("table")) {
    if (!node.querySelector("th")) faults.push("table without heads");
  }
  return faults;
}"""


def test_pages_are_sound_for_those_who_do_not_see_them(site: Page) -> None:
    act()
    thread = foreign_thread()
    for address in (
        "/rules/",
        "/rules/matrix/",
        "/rules/trail/",
        f"/rules/{RULE}/?ask=off",
        "/rules/any-lone-surrogate/",
        "/connections/",
        "/connections/anthropic/",
        "/connections/anthropic/edit/",
        "/connections/new/",
        f"/threads/{thread.id}/preview/?provider=anthropic",
        f"/threads/{thread.id}/preview/?provider=openai&off=openai-chat-foreign-part",
    ):
        site.goto(address)
        faults: Any = site.evaluate(ACCESSIBLE)
        assert faults == [], address
