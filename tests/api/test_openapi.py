"""The document that describes the API, and the page that shows it."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from django.test import Client
from hypothesis import HealthCheck, given, settings

from memory.models import Agent
from tests import make
from tests.api.callers import Caller
from tests.api.test_errors import ROUTES


@pytest.fixture
def document(client: Client) -> Any:
    response = client.get("/api/openapi.json")
    assert response.status_code == 200
    return msgspec.json.decode(response.content)


@pytest.fixture
def application() -> Iterator[Any]:
    """The site as a server would call it, but within the test's transaction, as Django's own client does it."""
    signals = (request_started, request_finished)
    for signal in signals:
        signal.disconnect(close_old_connections)
    yield get_wsgi_application()
    for signal in signals:
        signal.connect(close_old_connections)


class TestDocument:
    def test_is_open(self, document: Any) -> None:
        assert document["info"]["title"] == "Compat Admin"
        assert set(document["paths"]) == {f"/api{path}" for _, path in ROUTES}

    def test_describes_every_route(self, document: Any) -> None:
        names = set()
        for path, methods in document["paths"].items():
            for method, route in methods.items():
                assert route["description"], (method, path)
                assert route["security"] == [{"ApiKey": []}]
                assert "application/problem+json" in route["responses"]["default"]["content"]
                assert ("requestBody" in route) == (method in ("post", "patch") and not path.endswith("/cancel"))
                statuses = [status for status in route["responses"] if status != "default"]
                assert statuses == (["200", "202"] if path.endswith("/generate") else statuses[:1])
                assert all(("content" in route["responses"][status]) == (status != "204") for status in statuses)
                names.add(route["operationId"])
        assert len(names) == len(ROUTES)

    def test_defines_every_shape_it_names(self, document: Any) -> None:
        named = set(re.findall(r'"#/components/schemas/([^"]+)"', msgspec.json.encode(document).decode()))
        assert named and named <= set(document["components"]["schemas"])

    def test_holds_nothing_of_the_inside(self, client: Client) -> None:
        assert b"compat_admin" not in client.get("/api/openapi.json").content


class TestPage:
    def test_is_open_and_loads_from_this_site_only(self, client: Client) -> None:
        response = client.get("/api/docs")
        assert response.status_code == 200
        text = response.content.decode()
        assert not re.search(r'(src|href)="(https?:)?//', text)
        assert not re.search(r"<script(?![^>]*(src=|application/json))", text)
        assets = re.findall(r'(?:src|href)="(/static/[^"]+)"', text)
        assert len(assets) >= 3
        for asset in assets:
            assert client.get(asset).status_code == 200, asset
        assert "'unsafe-" not in response.headers["Content-Security-Policy"]


@pytest.fixture
def described(application: Any, caller: Caller, agent: Agent) -> Any:
    """The document as schemathesis reads it, over a row of each kind; `check` sends a case and looks at its answer."""
    import schemathesis  # here, because it takes a second to load
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

    thread = make.make_thread(id="thread")
    for text in ("first", "second"):
        make.add_messages(thread, make.text(text, id="m"))
    make.make_attempt(make.make_run(thread, id="run"))
    headers = {"Authorization": f"Bearer {make.make_key()}", "Host": "testserver"}
    checks = [not_a_server_error, content_type_conformance, response_schema_conformance, status_code_conformance]

    class Described:
        schema = schemathesis.openapi.from_wsgi("/api/openapi.json", application, headers=headers)

        def check(self, case: Any) -> int:
            return int(case.call_and_validate(headers=headers, checks=checks).status_code)

    return Described()


@pytest.mark.parametrize("path", [path for method, path in ROUTES if method == "GET"])
def test_what_is_there_keeps_to_the_document(described: Any, path: str) -> None:
    ids = {"thread_id": "thread", "message_id": "m", "agent_id": "plain", "run_id": "run"}
    names = re.findall(r"{(\w+)}", path)
    case = described.schema[f"/api{path}"]["GET"].Case(path_parameters={name: ids[name] for name in names})
    assert described.check(case) == 200


def test_what_is_made_up_keeps_to_the_document(described: Any) -> None:
    seen = 0
    for found in described.schema.get_all_operations():
        operation = found.ok()
        if operation.path.endswith(("/generate", "/stream")):
            continue  # They would call a provider.

        @settings(max_examples=8, database=None, suppress_health_check=list(HealthCheck))
        @given(case=operation.as_strategy())
        def check(case: Any) -> None:
            described.check(case)

        check()
        seen += 1
    assert seen == len(ROUTES) - 2
