"""Keys and tokens made, listed and revoked through the API, and how many requests they may make."""

from typing import Any

import pytest
from django.utils import timezone

from memory.models import ApiKey, AuditEvent
from memory.services.rates import Counter
from tests import make
from tests.api.callers import Caller, answer, problem


class TestKeys:
    def test_are_made_shown_once_listed_and_revoked(self, caller: Caller) -> None:
        body = {"name": "shop", "scopes": ["write", "read"], "resource_id": "ada", "expires_in_s": 3600}
        made = caller.post("/keys", body)
        text = made.pop("key")
        assert (made["name"], made["scopes"], made["resource_id"], made["kind"], made["state"]) == (
            "shop",
            ["read", "write"],
            "ada",
            "key",
            "active",
        )
        assert text.startswith(made["prefix"])
        shop = Caller(text)
        assert shop.post("/threads", {})["resource_id"] == "ada"
        problem(shop.send("GET", "/keys"), 403, "forbidden")

        listed = caller.get("/keys")["items"]
        assert [item["name"] for item in listed] == ["shop", "key"]
        assert listed[0]["last_used_at"]
        assert text not in str(listed) and "sha256" not in str(listed)

        assert caller.send("DELETE", f"/keys/{made['id']}").status_code == 204
        problem(shop.send("GET", "/threads"), 401, "unauthorized")
        problem(caller.send("DELETE", f"/keys/{made['id']}"), 404, "not_found")
        assert caller.get("/keys")["items"][0]["state"] == "revoked"
        actions = AuditEvent.objects.filter(target_id=made["prefix"]).values_list("action", "actor")
        assert set(actions) == {("key.made", "key"), ("key.revoked", "key")}

    def test_make_none_that_may_more_than_themselves(self, db: None) -> None:
        admin = Caller(make.make_key(scopes=("admin",)))
        problem(admin.send("POST", "/keys", {"name": "x", "scopes": ["read"]}), 403, "forbidden")
        assert admin.post("/keys", {"name": "x", "scopes": ["admin"]})["scopes"] == ["admin"]

    def test_of_a_resource_never_are_an_admins(self, caller: Caller) -> None:
        body = {"name": "x", "scopes": ["admin"], "resource_id": "ada"}
        problem(caller.send("POST", "/keys", body), 422, "invalid_input", "scopes")
        # Nor does one help that somebody wrote into the row.
        make.make_key("ada")
        text = make.make_key("ada", scopes=("read",))
        ApiKey.objects.filter(resource_id="ada").update(scopes=["read", "admin"])
        problem(Caller(text).send("PATCH", "/rules/any-blank-text", {"state": "off"}), 403, "forbidden")

    @pytest.mark.parametrize("seconds", [0, -1, 10**12])
    def test_that_never_begin_or_never_end_are_refused(self, caller: Caller, seconds: int) -> None:
        body = {"name": "x", "scopes": ["read"], "expires_in_s": seconds}
        problem(caller.send("POST", "/keys", body), 422, "invalid_input", "expires_in_s")

    def test_come_page_by_page(self, caller: Caller) -> None:
        for i in range(4):
            make.make_key(name=f"key {i}")
        first = caller.get("/keys", limit=3)
        second = caller.get("/keys", limit=3, cursor=first["next_cursor"])
        assert [item["name"] for item in first["items"] + second["items"]] == [
            "key 3",
            "key 2",
            "key 1",
            "key 0",
            "key",
        ]
        assert second["next_cursor"] is None


class TestTokens:
    @pytest.fixture
    def backend(self, db: None) -> Caller:
        return Caller(make.make_key(name="backend", scopes=("read", "write")))

    def test_act_for_one_resource_within_their_makers_scopes(self, backend: Caller) -> None:
        ada, bob = make.make_thread("ada"), make.make_thread("bob")
        made = backend.post("/tokens", {"resource_id": "ada"})
        assert (made["kind"], made["scopes"], made["resource_id"]) == ("token", ["read", "write"], "ada")
        left_s = (ApiKey.objects.get(id=made["id"]).expires_at - timezone.now()).total_seconds()  # type: ignore[operator]
        assert 3590 < left_s <= 3600
        token = Caller(made["key"])
        assert [item["id"] for item in token.get("/threads")["items"]] == [ada.id]
        problem(token.send("GET", f"/threads/{bob.id}"), 404, "not_found")
        problem(token.send("POST", "/threads", {"resource_id": "bob"}), 403, "forbidden")
        assert AuditEvent.objects.filter(action="token.made", actor="backend").count() == 1

    @pytest.mark.parametrize("scopes", [["run"], ["read", "run"]])
    def test_have_no_more_scopes_than_their_maker(self, backend: Caller, scopes: list[str]) -> None:
        body = {"resource_id": "ada", "scopes": scopes}
        problem(backend.send("POST", "/tokens", body), 403, "forbidden")

    def test_make_no_tokens(self, backend: Caller) -> None:
        token = Caller(backend.post("/tokens", {"resource_id": "ada"})["key"])
        found = problem(token.send("POST", "/tokens", {"resource_id": "ada"}), 403, "forbidden")
        assert "no further tokens" in found["detail"]

    def test_end_with_their_maker(self, backend: Caller, caller: Caller) -> None:
        made = backend.post("/tokens", {"resource_id": "ada"})
        token = Caller(made["key"])
        token.get("/threads")
        assert caller.send("DELETE", f"/keys/{made['maker_id']}").status_code == 204
        problem(token.send("GET", "/threads"), 401, "unauthorized")
        assert caller.get("/keys", kind="token")["items"][0]["state"] == "revoked"

    def test_end_when_their_maker_expires(self, backend: Caller) -> None:
        made = backend.post("/tokens", {"resource_id": "ada"})
        ApiKey.objects.filter(id=made["maker_id"]).update(expires_at=timezone.now())
        problem(Caller(made["key"]).send("GET", "/threads"), 401, "unauthorized")

    @pytest.mark.parametrize("seconds", [59, 86_401, -5])
    def test_are_short_lived(self, backend: Caller, seconds: int) -> None:
        body = {"resource_id": "ada", "expires_in_s": seconds}
        problem(backend.send("POST", "/tokens", body), 422, "invalid_input", "expires_in_s")

    def test_need_a_resource_which_a_keys_own_is(self, backend: Caller) -> None:
        problem(backend.send("POST", "/tokens", {}), 422, "invalid_input", "resource_id")
        bound = Caller(make.make_key("ada"))
        assert bound.post("/tokens", {})["resource_id"] == "ada"
        problem(bound.send("POST", "/tokens", {"resource_id": "bob"}), 403, "forbidden")


class TestRates:
    @pytest.fixture(autouse=True)
    def limit(self, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        settings.COMPAT_ADMIN_RATE_LIMIT = 5
        # A process of its own, and a minute that does not end.
        monkeypatch.setattr("compat_admin.api.auth.counter", Counter(lambda: 1_772_366_430.0))

    def test_stand_in_the_headers_and_end_in_429(self, db: None) -> None:
        caller = Caller(make.make_key(name="busy"))
        responses = [caller.send("GET", path) for path in ("/threads", "/nowhere", "/runs/x", "/threads", "/agents")]
        assert [response.status_code for response in responses] == [200, 404, 404, 200, 200]
        assert [response.headers["RateLimit-Remaining"] for response in responses] == ["4", "3", "2", "1", "0"]
        refused = caller.send("POST", "/threads", {"resource_id": "ada"})
        problem(refused, 429, "rate_limited")
        assert refused.headers["RateLimit-Limit"] == "5"
        assert refused.headers["Retry-After"] == refused.headers["RateLimit-Reset"] == "31"
        assert caller.send("PUT", "/nowhere").status_code == 429

    def test_of_one_key_are_no_matter_of_another(self, db: None) -> None:
        busy, calm = Caller(make.make_key()), Caller(make.make_key())
        for _ in range(7):
            busy.send("GET", "/threads")
        assert answer(calm.send("GET", "/threads"))["items"] == []

    def test_are_not_told_to_who_has_no_key(self, nobody: Caller, db: None) -> None:
        assert "RateLimit-Limit" not in nobody.send("GET", "/threads").headers
