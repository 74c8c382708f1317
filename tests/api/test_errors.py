"""What every route has in common: who gets in, and how it says no."""

import re
from typing import Any

import msgspec
import pytest
from django.test import Client
from django.utils import timezone

from compat_admin.api import api
from compat_admin.api.errors import STATUSES, status_of
from memory import errors
from memory.models import Agent, ApiKey, RuleSetting, Thread
from tests import make
from tests.api.callers import Caller, problem

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "BREW")
# Every route, with the scope it asks for.
ROUTES = {
    ("GET", "/threads"): "read",
    ("POST", "/threads"): "write",
    ("GET", "/threads/{thread_id}"): "read",
    ("PATCH", "/threads/{thread_id}"): "write",
    ("DELETE", "/threads/{thread_id}"): "write",
    ("GET", "/threads/{thread_id}/messages"): "read",
    ("POST", "/threads/{thread_id}/messages"): "write",
    ("GET", "/threads/{thread_id}/messages/{message_id}"): "read",
    ("GET", "/threads/{thread_id}/messages/{message_id}/versions"): "read",
    ("GET", "/agents"): "read",
    ("POST", "/agents"): "admin",
    ("GET", "/agents/{agent_id}"): "read",
    ("PATCH", "/agents/{agent_id}"): "admin",
    ("POST", "/agents/{agent_id}/generate"): "run",
    ("POST", "/agents/{agent_id}/prepare"): "run",
    ("POST", "/agents/{agent_id}/stream"): "run",
    ("GET", "/runs/{run_id}/events"): "read",
    ("GET", "/providers"): "read",
    ("GET", "/rules"): "read",
    ("PATCH", "/rules/{name}"): "admin",
    ("GET", "/runs"): "read",
    ("GET", "/runs/{run_id}"): "read",
    ("GET", "/runs/{run_id}/bundle"): "read",
    ("POST", "/runs/{run_id}/cancel"): "run",
    ("POST", "/runs/{run_id}/reply"): "run",
    ("POST", "/runs/{run_id}/error"): "run",
    ("POST", "/preview"): "read",
    ("POST", "/check"): "read",
    ("POST", "/threads/{thread_id}/clone"): "write",
    ("DELETE", "/threads/{thread_id}/messages/{message_id}"): "write",
    ("POST", "/threads/{thread_id}/messages/{message_id}/revert"): "write",
    ("DELETE", "/agents/{agent_id}"): "admin",
    ("POST", "/providers"): "admin",
    ("GET", "/providers/{provider_id}"): "read",
    ("PATCH", "/providers/{provider_id}"): "admin",
    ("DELETE", "/providers/{provider_id}"): "admin",
    ("POST", "/errors/explain"): "read",
    ("GET", "/keys"): "admin",
    ("POST", "/keys"): "admin",
    ("DELETE", "/keys/{key_id}"): "admin",
    ("POST", "/tokens"): "token",
}


def documented() -> set[tuple[str, str]]:
    paths = api.get_openapi_schema(path_prefix="")["paths"]
    return {(method.upper(), path) for path, methods in paths.items() for method in methods}


def test_every_route_is_listed_here() -> None:
    assert documented() == set(ROUTES)


def filled(path: str) -> str:
    return re.sub(r"{\w+}", "absent", path)


class TestKeys:
    @pytest.mark.parametrize(("method", "path"), ROUTES)
    def test_come_before_anything_else(self, db: None, method: str, path: str) -> None:
        # The body, its type and the query are wrong, and there is no such row: none of it may show.
        response = Caller(None).send(method, filled(path), b"{", content_type="text/plain", limit="x")
        problem(response, 401, "unauthorized")
        assert response.headers["WWW-Authenticate"] == "Bearer"

    @pytest.mark.parametrize(
        "header",
        ["", "Bearer", "Bearer ", "Basic {key}", "{key}", "Bearer x{key}", "Bearer {key} {key}", "Bearer \xff\x00"],
    )
    def test_are_refused_in_any_other_form(self, db: None, header: str) -> None:
        client = Client(headers={"Authorization": header.format(key=make.make_key())})
        problem(client.get("/api/threads"), 401, "unauthorized")

    def test_may_be_written_with_any_case_of_bearer(self, db: None) -> None:
        client = Client(headers={"Authorization": f"bEARER  {make.make_key()}"})
        assert client.get("/api/threads").status_code == 200

    def test_end_when_they_are_revoked_or_expire(self, db: None) -> None:
        expired = Caller(make.make_key())
        ApiKey.objects.update(expires_at=timezone.now())
        problem(expired.send("GET", "/threads"), 401, "unauthorized")
        revoked = Caller(make.make_key())
        revoked.get("/threads")
        ApiKey.objects.update(revoked_at=timezone.now())
        problem(revoked.send("GET", "/threads"), 401, "unauthorized")

    def test_are_not_replaced_by_a_login(self, admin_client: Client) -> None:
        problem(admin_client.get("/api/threads"), 401, "unauthorized")

    @pytest.mark.parametrize("path", ["/absent", "/", "/threads/", "/a/b/c/d", "/%00%0A", "/threads/x/y"])
    @pytest.mark.parametrize("method", METHODS)
    def test_are_asked_for_where_nothing_is(self, caller: Caller, nobody: Caller, method: str, path: str) -> None:
        for who, status, code in ((nobody, 401, "unauthorized"), (caller, 404, "not_found")):
            response = who.send(method, path)
            assert response.status_code == status
            if method != "HEAD":
                problem(response, status, code)

    @pytest.mark.parametrize("path", ["/threads", "/threads/absent", "/rules/absent", "/openapi.json", "/docs"])
    def test_are_asked_for_by_methods_that_are_not_there(self, caller: Caller, nobody: Caller, path: str) -> None:
        problem(nobody.send("PUT", path), 401, "unauthorized")
        response = caller.send("PUT", path)
        problem(response, 405, "method_not_allowed")
        assert "PUT" not in response.headers["Allow"] and response.headers["Allow"]


class TestRefusals:
    def test_have_one_status_each(self) -> None:
        def named(cls: type[errors.CompatAdminError]) -> set[type[errors.CompatAdminError]]:
            return {cls}.union(*(named(child) for child in cls.__subclasses__()))

        own = {cls for cls in named(errors.CompatAdminError) if cls.__module__ == errors.__name__}
        assert own - set(STATUSES) == {errors.InvalidOption}  # It is an InvalidInput, and counts as one.
        assert status_of(errors.InvalidOption("no")) == 422
        assert status_of(errors.InvalidInput("no", code="bad_cursor")) == 400
        assert status_of(errors.RunStopped("no")) == 422

    @pytest.mark.parametrize(
        "body",
        [b"", b"{", b"{} {}", b"nul", b"\xff\xfe", b'{"a": NaN}', b"[" * 100_000, b'{"title": "\xff"}', b'"\x00"'],
    )
    def test_say_that_a_body_is_no_json(self, caller: Caller, body: bytes) -> None:
        problem(caller.send("POST", "/threads", body), 400, "not_json")
        assert not Thread.objects.exists()

    def test_say_that_a_body_is_nested_too_deeply(self, caller: Caller) -> None:
        for depth in (201, 400, 900):
            metadata = b'{"a":' * depth + b"1" + b"}" * depth
            body = b'{"resource_id": "r", "metadata": ' + metadata + b"}"
            problem(caller.send("POST", "/threads", body), 422, "invalid_input", "body")
        assert not Thread.objects.exists()
        flat = {"resource_id": "r", "metadata": {str(i): [{}] for i in range(500)}}
        assert caller.post("/threads", flat)["metadata"] == flat["metadata"]

    @pytest.mark.parametrize(
        "content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
    )
    def test_say_that_a_body_has_another_type(self, caller: Caller, content_type: str) -> None:
        body = b'{"resource_id": "r"}'
        problem(caller.send("POST", "/threads", body, content_type=content_type), 415, "unsupported_media_type")
        assert not Thread.objects.exists()

    @pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "Application/JSON"])
    def test_let_every_spelling_of_json_pass(self, caller: Caller, content_type: str) -> None:
        assert caller.send("POST", "/threads", {"resource_id": "r"}, content_type=content_type).status_code == 201

    def test_say_that_a_body_is_too_large(self, caller: Caller, settings: Any) -> None:
        settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 100
        body = {"resource_id": "r", "title": "x" * 100}
        problem(caller.send("POST", "/threads", body), 413, "too_large")
        assert not Thread.objects.exists()

    def test_say_that_there_are_too_many_parameters(self, caller: Caller) -> None:
        query = "&".join(f"a{i}=1" for i in range(2000))
        problem(caller.send("GET", f"/threads?{query}"), 400, "bad_request")

    def test_never_tell_what_broke_inside(self, caller: Caller, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
        def broken(*args: Any, **kwargs: Any) -> None:
            raise RuntimeError("the secret is 4711")

        monkeypatch.setattr("memory.queries.threads_page", broken)
        response = caller.send("GET", "/threads")
        problem(response, 500, "internal_error")
        assert b"4711" not in response.content
        assert "the secret is 4711" in caplog.text

    def test_never_tell_what_broke_while_the_key_was_read(
        self, caller: Caller, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(*args: Any, **kwargs: Any) -> None:
            raise RuntimeError("the secret is 4711")

        monkeypatch.setattr("memory.services.keys.look_up", broken)
        for path in ("/threads", "/absent"):
            response = caller.send("GET", path)
            problem(response, 500, "internal_error")
            assert b"4711" not in response.content

    def test_can_quote_an_input_that_no_json_can_hold(self, caller: Caller) -> None:
        body = rb'{"messages": [{"role": "user", "content": [{"type": "\udc00"}]}]}'
        thread = make.make_thread()
        response = caller.send("POST", f"/threads/{thread.id}/messages", body)
        problem(response, 422, "invalid_input", "messages[0].content[0].type")


class TestManners:
    def test_answers_are_not_kept_by_caches(self, caller: Caller) -> None:
        for path in ("/threads", "/absent"):
            assert caller.send("GET", path).headers["Cache-Control"] == "no-store"

    def test_sets_no_cookie(self, caller: Caller) -> None:
        assert not caller.send("GET", "/threads").cookies

    def test_saves_nothing_by_reading(self, caller: Caller) -> None:
        for method, path in ROUTES:
            if method == "GET":
                caller.send(method, filled(path))
        assert not Thread.objects.exists() and not Agent.objects.exists() and not RuleSetting.objects.exists()

    def test_gives_times_in_utc(self, caller: Caller) -> None:
        make.make_thread()
        text = caller.send("GET", "/threads").content
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", msgspec.json.decode(text)["items"][0]["created_at"])
