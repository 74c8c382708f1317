"""The Keys page: made, shown once, revoked with a question first."""

from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from memory.models import ApiKey, AuditEvent
from memory.services.keys import principal_for
from tests import make

FORM = {"name": "<b>shop</b>", "scopes": ["read", "write"], "resource_id": "", "lasts": "30"}


def shown(response: Any) -> str:
    return response.content.decode()


@pytest.mark.django_db
class TestKeys:
    def test_are_shown_once(self, pages: Client) -> None:
        response = pages.post("/keys/", FORM)
        key = ApiKey.objects.get()
        text = shown(response).partition('value="ca_')[2].partition('"')[0]
        assert principal_for(f"ca_{text}") is not None
        assert response["Cache-Control"].find("no-store") >= 0
        later = shown(pages.get("/keys/"))
        assert text not in later
        assert key.prefix in later
        assert "&lt;b&gt;shop&lt;/b&gt;" in later and "<b>shop" not in later
        assert (key.expires_at - timezone.now()).days == 29  # type: ignore[operator]
        assert AuditEvent.objects.get(action="key.made").actor == "operator"

    @pytest.mark.parametrize(
        ("change", "sentence"),
        [
            ({"name": ""}, "expected"),
            ({"scopes": []}, "expected at least one of"),
            ({"scopes": ["root"]}, "unknown scope"),
            ({"scopes": ["admin"], "resource_id": "ada"}, "belong to no resource"),
            ({"lasts": "12345678901"}, "choose how long"),
        ],
    )
    def test_that_make_no_sense_come_back_with_their_values(
        self, pages: Client, change: dict[str, Any], sentence: str
    ) -> None:
        response = pages.post("/keys/", {**FORM, **change})
        assert response.status_code == 422
        assert sentence in shown(response)
        assert not ApiKey.objects.exists()

    def test_are_revoked_after_a_question(self, pages: Client) -> None:
        text = make.make_key(name="shop")
        key = ApiKey.objects.get()
        question = pages.get(f"/keys/{key.id}/revoke/")
        assert "Revoke" in shown(question) and principal_for(text) is not None
        assert pages.post(f"/keys/{key.id}/revoke/")["Location"] == "/keys/"
        assert principal_for(text) is None
        assert "revoked" in shown(pages.get("/keys/"))
        assert pages.post(f"/keys/{key.id}/revoke/").status_code == 404

    def test_cost_the_same_queries_however_many(self, pages: Client, django_assert_num_queries: Any) -> None:
        make.make_key()
        pages.get("/keys/")
        with django_assert_num_queries(4):
            pages.get("/keys/")
        for _ in range(5):
            make.make_key()
        with django_assert_num_queries(4):
            pages.get("/keys/")
