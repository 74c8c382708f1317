"""The Users page: who comes in, as what, and the link with which somebody sets a password."""

import re
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from memory.models import AuditEvent, OperatorPreference
from memory.services.operators import role_of

GOOD = "correct horse battery"


def shown(response: Any) -> str:
    return response.content.decode()


def link_in(response: Any) -> str:
    return re.findall(r'value="http://testserver(/password/[^"]+)"', shown(response))[0]


def user(name: str) -> Any:
    return get_user_model().objects.select_related("preference").get(username=name)


@pytest.mark.django_db
class TestUsers:
    def test_are_made_with_a_role_and_come_in_by_a_link(self, pages: Client) -> None:
        response = pages.post("/users/", {"username": "vera", "role": "viewer"})
        assert not user("vera").has_usable_password()
        link = link_in(response)
        assert link not in shown(pages.get("/users/"))
        vera = Client()
        assert "vera" in shown(vera.get(link))
        assert vera.post(link, {"password": GOOD, "again": GOOD})["Location"] == "/login/"
        assert vera.post("/login/", {"username": "vera", "password": GOOD}).status_code == 302
        assert vera.get("/threads/").status_code == 200
        assert vera.get("/keys/").status_code == 403
        assert vera.get("/users/").status_code == 403
        actions = AuditEvent.objects.filter(target_id="vera").order_by("id").values_list("action", "actor")
        assert list(actions) == [
            ("operator.created", "operator"),
            ("operator.link-made", "operator"),
            ("operator.password-set", "vera"),
        ]

    @pytest.mark.parametrize(
        "values",
        [
            {"username": "", "role": "viewer"},
            {"username": "a b", "role": "viewer"},
            {"username": "x" * 151, "role": "viewer"},
            {"username": "a\x00b", "role": "viewer"},
            {"username": "operator", "role": "viewer"},
            {"username": "vera", "role": "root"},
            {"username": "vera"},
        ],
    )
    def test_that_can_not_be_are_refused(self, pages: Client, values: dict[str, str]) -> None:
        assert pages.post("/users/", values).status_code == 422
        assert get_user_model().objects.count() == 1

    def test_get_another_role_at_once(self, pages: Client) -> None:
        get_user_model().objects.create_superuser("boss")
        boss = Client()
        boss.force_login(user("boss"))
        assert boss.get("/keys/").status_code == 200
        pages.post(f"/users/{user('boss').pk}/role/", {"role": "reader"})
        assert (role_of(user("boss")), user("boss").is_superuser) == ("reader", False)
        assert boss.get("/keys/").status_code == 403
        assert AuditEvent.objects.get(action="operator.role").detail == {"before": "admin", "role": "reader"}

    def test_are_kept_out_after_a_question_and_let_in_again(self, pages: Client) -> None:
        get_user_model().objects.create_superuser("boss", password=GOOD)
        boss = Client()
        boss.force_login(user("boss"))
        address = f"/users/{user('boss').pk}/active/"
        assert "Keep" in shown(pages.get(address)) and user("boss").is_active
        pages.post(address)
        assert boss.get("/threads/").status_code == 302
        assert boss.post("/login/", {"username": "boss", "password": GOOD}).status_code == 403
        pages.post(address, {"active": "1"})
        assert boss.post("/login/", {"username": "boss", "password": GOOD}).status_code == 302

    def test_do_not_change_their_own_account(self, pages: Client) -> None:
        me = user("operator").pk
        for path, values in ((f"/users/{me}/role/", {"role": "viewer"}), (f"/users/{me}/active/", {})):
            assert pages.post(path, values).status_code == 409
        assert role_of(user("operator")) == "admin" and user("operator").is_active

    def test_who_are_not_there_are_not_found(self, pages: Client) -> None:
        for number in (999, 2**31, 10**30):
            for path in ("role", "active", "link"):
                assert pages.post(f"/users/{number}/{path}/", {"role": "viewer"}).status_code == 404, (number, path)


@pytest.mark.django_db
class TestPasswordLink:
    @pytest.fixture
    def link(self, pages: Client) -> str:
        return link_in(pages.post("/users/", {"username": "vera", "role": "viewer"}))

    def test_works_once(self, link: str) -> None:
        Client().post(link, {"password": GOOD, "again": GOOD})
        before = user("vera").password
        assert Client().get(link).status_code == 404
        assert Client().post(link, {"password": "another good one", "again": "another good one"}).status_code == 404
        assert user("vera").password == before

    @pytest.mark.parametrize(
        ("password", "again"), [("short", "short"), (GOOD, "other"), ("123456789012", "123456789012"), ("", "")]
    )
    def test_refuses_a_bad_password_and_stays_good(self, link: str, password: str, again: str) -> None:
        assert Client().post(link, {"password": password, "again": again}).status_code == 422
        assert not user("vera").has_usable_password()
        assert Client().get(link).status_code == 200

    def test_is_not_good_for_who_is_kept_out_nor_altered(self, pages: Client, link: str) -> None:
        _, uid, token = link.strip("/").split("/")
        for wrong in (f"{uid}/{token[:-1]}x", f"MQ/{token}", "!!/x", "LTE/x"):
            assert Client().get(f"/password/{wrong}/").status_code == 404, wrong
        pages.post(f"/users/{user('vera').pk}/active/")
        assert Client().get(link).status_code == 404

    def test_ends_open_sessions(self, pages: Client, link: str) -> None:
        Client().post(link, {"password": GOOD, "again": GOOD})
        vera = Client()
        vera.post("/login/", {"username": "vera", "password": GOOD})
        again = link_in(pages.post(f"/users/{user('vera').pk}/link/"))
        Client().post(again, {"password": "another good one", "again": "another good one"})
        assert vera.get("/threads/").status_code == 302


def test_whoever_has_no_role_sees_nothing(db: None) -> None:
    get_user_model().objects.create_user("nobody", password=GOOD)
    client = Client()
    client.force_login(user_without_preference := get_user_model().objects.get())
    assert role_of(user_without_preference) == ""
    assert client.get("/threads/").status_code == 403
    assert client.get("/preferences/").status_code == 200
    assert not OperatorPreference.objects.exists()
