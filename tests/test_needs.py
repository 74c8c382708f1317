"""A walk over every address of the site: each names the permission that it needs, and keeps to it.

A new route or page is found by itself. What it has to say: `auth=READ` (WRITE, RUN, ADMIN, TOKEN) on a route of the
API, `needs="shape"` (or another of `memory.principal.PERMISSIONS`, or SIGNED_IN) on a page. An address that carries a
name of a new kind needs a row here, in `_rows`, and a value in VALUES.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pytest
from django.contrib.auth import get_user_model
from django.http import HttpResponse
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from compat_admin.api import api
from compat_admin.dashboard.pages import page
from compat_admin.needs import ANYONE, SIGNED_IN, needs_of
from memory.models import MessageVersion, OperatorPreference, Thread
from memory.principal import FELT_BY_ALL, OF_ROLE, OF_SCOPE, PERMISSIONS, ROLES, SCOPES
from tests import make

OPEN = {"healthz", "readyz", "login/", "password/<str:uid>/<str:token>/", "api/docs", "api/openapi.json", "api/"}
"""All there is that asks nobody who they are. The rest of /api answers 401 before it says that nothing is there."""

VALUES: Mapping[str, Any] = {
    "thread_id": "thread-1",
    "message_id": "secret-message",
    "seq": 1,
    "n": 0,
    "version": 1,
    "rule_id": "any-blank-text",
    "name": "any-blank-text",
    "run_id": "run-1",
    "number": 1,
    "which": "request",
    "agent_id": "agent-1",
    "provider_id": "anthropic",
    "key_id": 1,
    "user_id": 1,
    "job_id": "job-1",
    "uid": "MQ",
    "token": "x",
}
MARK = "quetzalcoatl"
"""Stands in all content, and so on no page of a viewer."""
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


class Address:
    """An address with its view's permissions by method."""

    def __init__(self, route: str, pattern: URLPattern, names: list[str]) -> None:
        self.route, self.pattern, self.names = route, pattern, names
        self.needs = needs_of(pattern.callback)

    @property
    def is_api(self) -> bool:
        return self.route.startswith("api/")

    def path(self) -> str:
        missing = [name for name in self.names if name not in VALUES]
        assert not missing, f"{self.route}: give {missing} a value in VALUES, and make a row for it in _rows"
        path = self.route
        for name, converter in self.pattern.pattern.converters.items():
            path = path.replace(f"<{name}>", str(VALUES[name])).replace(
                f"<{_kind(converter)}:{name}>", str(VALUES[name])
            )
        return f"/{path}"


def _kind(converter: Any) -> str:
    return {"IntConverter": "int", "PathConverter": "path", "UUIDConverter": "uuid", "SlugConverter": "slug"}.get(
        type(converter).__name__, "str"
    )


def _walk(patterns: list[Any], prefix: str = "") -> Iterator[Address]:
    for entry in patterns:
        route = prefix + str(entry.pattern)
        if isinstance(entry, URLResolver):
            yield from _walk(entry.url_patterns, route)
        else:
            yield Address(route, entry, list(entry.pattern.converters))


def all_addresses() -> list[Address]:
    found: dict[str, Address] = {}
    for address in _walk(get_resolver().url_patterns):
        found.setdefault(address.route, address)
    return list(found.values())


ALL = all_addresses()
DOCUMENT = api.get_openapi_schema(path_prefix="/api/")
API = [(method, address) for address in ALL if address.is_api for method in address.needs if method]
PAGES = [address for address in ALL if not address.is_api and address.needs.get("") not in (ANYONE, None)]


def named(value: Any) -> str | None:
    return value.route if isinstance(value, Address) else None


@pytest.mark.parametrize("address", ALL, ids=named)
def test_every_address_names_what_it_needs(address: Address) -> None:
    where = f"/{address.route} ({address.pattern.callback.__module__})"
    how = "auth=READ, WRITE, RUN, ADMIN or TOKEN on its decorator" if address.is_api else 'needs="…" in page(…)'
    assert address.needs, f"{where} is not made by page(…), nor marked @names(PUBLIC)"
    for method, permission in address.needs.items():
        assert permission, f"{where} names no permission for {method or 'any method'}: give it {how}"
        assert permission in (*PERMISSIONS, ANYONE, SIGNED_IN), f"{where}: {permission!r} is no permission"
        if permission == ANYONE:
            assert address.route in OPEN, f"{where} is open to anyone; if that is meant, add it to OPEN here"


def test_what_names_nothing_lets_nobody_in(rf: Any, db: None) -> None:
    nothing = page("nowhere/", lambda request: HttpResponse(MARK), "nowhere")
    assert needs_of(nothing.callback) == {"": ""}
    request = rf.get("/nowhere/")
    request.user = get_user_model().objects.create_superuser("root")
    response = nothing.callback(request)
    assert response.status_code == 403
    assert MARK not in response.content.decode()


def test_addresses_of_all_kinds_are_found() -> None:
    assert len(API) > 25
    assert len(PAGES) > 25
    assert {address.route for address in ALL} >= OPEN


# Rows


@pytest.fixture
def rows(db: None) -> None:
    """A row for every name that addresses carry, each full of the mark."""
    user = get_user_model().objects.create_user("somebody", password=None, id=1)
    OperatorPreference.objects.create(user=user, role="viewer")
    agent = make.make_agent(id="agent-1", instructions="Be kind.")
    thread = make.make_thread("ada", id="thread-1", title=MARK, metadata={"note": MARK}, last_error=f"quota: {MARK}")
    call = make.tool_call(state="result", args={"q": MARK}, result={"a": MARK})
    parts = [{"type": "text", "text": MARK}, {"type": "reasoning", "reasoning": MARK}, call]
    for text in parts:
        make.add_messages(thread, make.message(text, role="assistant", id="secret-message"))
    make.add_messages(thread, make.text(MARK, id="second"))
    assert MessageVersion.objects.exists()
    changes = [{"number": 1, "rule": "any-blank-text", "reason": MARK, "before": MARK, "after": MARK, "loss": "same"}]
    run = make.make_run(
        thread,
        id="run-1",
        agent=agent,
        status="failed",
        input=msgspec.json.encode([{"text": MARK}]).decode(),
        settings=msgspec.json.encode({"system": [MARK]}).decode(),
        error_class="bad-request",
        error_message=MARK,
    )
    body = zlib.compress(MARK.encode())
    make.make_attempt(
        run,
        status=400,
        request_body=body,
        request_size=12,
        response_body=body,
        response_size=12,
        error_message=MARK,
        decision="give-up",
        reason=f"The next attempt could not be made: {MARK}",
        changes=msgspec.json.encode(changes).decode(),
        findings=msgspec.json.encode([{"rule": "any-blank-text", "place": "/messages/0", "reason": MARK}]).decode(),
    )
    make.make_key()


# Callers


def _send(client: Client, method: str, address: Address, body: Any = None) -> Any:
    data = b"" if body is None else msgspec.json.encode(body)
    return client.generic(method, address.path(), data, content_type="application/json" if data else "")


def _with_key(**fields: Any) -> Client:
    return Client(headers={"Authorization": f"Bearer {make.make_key(**fields)}"})


@pytest.mark.parametrize(("method", "address"), API, ids=named)
class TestCallers:
    def test_without_a_key_get_in_nowhere(self, rows: None, method: str, address: Address) -> None:
        for client in (Client(), Client(headers={"Authorization": "Bearer ca_wrong"})):
            assert _send(client, method, address).status_code == 401
        operator = Client()
        operator.force_login(get_user_model().objects.create_superuser("root"))
        assert _send(operator, method, address).status_code == 401

    def test_without_the_scope_are_refused(self, rows: None, method: str, address: Address) -> None:
        permission = address.needs[method]
        lacking = tuple(scope for scope in SCOPES if permission not in OF_SCOPE[scope])
        response = _send(_with_key(scopes=lacking), method, address)
        assert response.status_code == 403, f"a key with {lacking} got {response.status_code}"
        assert permission in response.json()["detail"]
        assert Thread.objects.filter(id="thread-1", title=MARK).exists()

    def test_with_the_scope_alone_are_let_in(self, rows: None, method: str, address: Address) -> None:
        having = next(scope for scope in SCOPES if address.needs[method] in OF_SCOPE[scope])
        status = _send(_with_key(scopes=(having,)), method, address).status_code
        assert status not in (401, 403)
        assert status != 405, f"{address.route} stands in two routers, of which only the first is asked: keep to one"

    def test_of_another_resource_see_and_change_nothing(self, rows: None, method: str, address: Address) -> None:
        response = _send(_with_key(resource_id="bob"), method, address, _example(method, address))
        if address.needs[method] in FELT_BY_ALL:
            assert response.status_code == 403
            return
        owned = {"thread_id", "run_id"}.intersection(address.names)
        if owned:
            assert response.status_code == 404, f"a key of another resource got {response.status_code}"
        assert MARK not in _whole(response)[:100_000]
        assert Thread.objects.filter(id="thread-1", title=MARK, message_count=2).exists()


def _example(method: str, address: Address) -> Any:
    """The body that the document gives as an example of the route, or an empty one."""
    path = f"/{address.route.replace('<', '{').replace('>', '}')}"
    route = DOCUMENT["paths"][path][method.lower()]
    return route.get("requestBody", {}).get("content", {}).get("application/json", {}).get("example", {})


def _whole(response: Any) -> str:
    return (b"".join(response.streaming_content) if response.streaming else response.content).decode("utf-8", "replace")


# Operators


def _logged_in(role: str) -> Client:
    user = get_user_model().objects.create_user(f"the-{role or 'nobody'}")
    OperatorPreference.objects.create(user=user, role=role)
    client = Client()
    client.force_login(user)
    return client


@pytest.mark.parametrize("address", PAGES, ids=named)
class TestOperators:
    def test_who_are_not_logged_in_are_sent_to_the_login(self, rows: None, address: Address) -> None:
        for client in (Client(), _with_key()):
            for method in METHODS:
                response = client.generic(method, address.path())
                assert (response.status_code, response["Location"][:13]) == (302, "/login/?next="), method
        assert Thread.objects.filter(id="thread-1", title=MARK, message_count=2).exists()

    @pytest.mark.parametrize("role", ["", "unheard-of", *ROLES])
    def test_get_in_where_their_role_lets_them(self, rows: None, address: Address, role: str) -> None:
        permission = address.needs[""]
        client = _logged_in(role)
        may = permission == SIGNED_IN or permission in OF_ROLE.get(role, ())
        for method in ("GET", "POST"):
            status = client.generic(method, address.path()).status_code
            assert (status == 403) is not may, f"{role or 'no role'} got {status} for {method}; it needs {permission}"
        if not may:
            assert Thread.objects.filter(id="thread-1", title=MARK, message_count=2).exists()

    def test_who_are_viewers_see_no_content(self, rows: None, address: Address) -> None:
        client = _logged_in("viewer")
        for headers in ({}, {"HX-Request": "true"}):
            assert MARK not in _whole(client.get(address.path(), headers=headers))

    def test_who_are_kept_out_are_out_at_once(self, rows: None, address: Address) -> None:
        client = _logged_in("admin")
        get_user_model().objects.update(is_active=False)
        assert client.get(address.path())["Location"].startswith("/login/")


def test_readers_do_see_the_content(rows: None) -> None:
    client = _logged_in("reader")
    for name, arguments in (("thread", ["thread-1"]), ("threads", []), ("run", ["run-1"])):
        assert MARK in client.get(reverse(name, args=arguments)).content.decode(), name
