"""Keys and users in a real browser."""

from typing import Any

from playwright.sync_api import Browser, Page, expect

from memory.services.keys import principal_for


def test_a_key_is_made_copied_and_gone_with_the_next_page(site: Page) -> None:
    site.goto("/keys/")
    site.get_by_text("Make a key").click()
    site.get_by_label("Name").fill("shop backend")
    site.get_by_role("button", name="Make the key").click()
    text = site.get_by_label("The new key").input_value()
    assert principal_for(text) is not None
    copy = site.get_by_role("button", name="Copy")
    expect(copy).to_be_visible()
    copy.click()
    expect(site.get_by_role("button", name="Copied")).to_be_visible()
    site.goto("/keys/")
    expect(site.get_by_text("shop backend")).to_be_visible()
    assert text not in site.content()
    site.get_by_role("link", name="Revoke shop backend").click()
    site.get_by_role("button", name="Revoke it").click()
    expect(site.get_by_text("refused from now on")).to_be_visible()
    assert principal_for(text) is None


def test_a_user_is_added_sets_a_password_and_comes_in(site: Page, browser: Browser, live_server: Any) -> None:
    site.goto("/users/")
    site.get_by_text("Add a user").click()
    site.get_by_label("User name").fill("vera")
    site.get_by_label("viewer").check()
    site.get_by_role("button", name="Add the user").click()
    link = site.get_by_label("The link").input_value()
    context = browser.new_context(base_url=live_server.url)
    page = context.new_page()
    page.goto(link)
    for label in ("Password", "Once more"):
        page.get_by_label(label).fill("correct horse battery")
    page.get_by_role("button", name="Set it").click()
    page.get_by_label("User name").fill("vera")
    page.get_by_label("Password").fill("correct horse battery")
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url("**/threads/")
    navigation = page.get_by_role("navigation", name="Main")
    expect(navigation.get_by_role("link", name="Runs")).to_be_visible()
    expect(navigation.get_by_role("link", name="Keys")).to_have_count(0)
    context.close()
