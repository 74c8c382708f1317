"""The document against a real server: whatever is made up from it gets an answer that it describes, and never a 5xx."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import schemathesis
from django.core.wsgi import get_wsgi_application
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from waitress.server import create_server

from compat_admin.api import api
from memory.sandbox import Sandbox
from tests import make

CHECKS = [not_a_server_error, content_type_conformance, response_schema_conformance, status_code_conformance]
KNOWN = {
    "thread_id": "thread",
    "message_id": "m",
    "agent_id": "plain",
    "run_id": "run",
    "provider_id": "anthropic",
    "key_id": 999,
    "name": "any-blank-text",
}
OPERATIONS = [
    (method.upper(), path)
    for path, methods in api.get_openapi_schema(path_prefix="/api/")["paths"].items()
    for method in methods
]


@pytest.fixture
def server(transactional_db: None, sandbox: Sandbox, agent: Any) -> Iterator[str]:
    """The address of the site behind the demo's web server, with a row of each kind."""
    thread = make.make_thread(id="thread")
    for text in ("first", "second"):
        make.add_messages(thread, make.text(text, id="m"))
    make.make_attempt(make.make_run(thread, id="run"))
    running = create_server(get_wsgi_application(), host="127.0.0.1", port=0, threads=8)
    threading.Thread(target=running.run, name="site", daemon=True).start()
    yield f"http://127.0.0.1:{running.effective_port}"
    running.close()


@pytest.fixture
def schema(server: str) -> Any:
    return schemathesis.openapi.from_url(f"{server}/api/openapi.json")


def _send(case: Any, headers: dict[str, str]) -> int:
    # A case may bring a header of its own that no client could send.
    return int(case.call_and_validate(headers=headers, checks=CHECKS, timeout=30).status_code)


def _known(path: str) -> dict[str, Any]:
    names = re.findall(r"{(\w+)}", path)
    missing = [name for name in names if name not in KNOWN]
    assert not missing, f"{path}: give {missing} a value in KNOWN, of a row that the server fixture makes"
    return {name: KNOWN[name] for name in names}


def _try_many(operation: Any, examples: int, check: Callable[[Any], None]) -> None:
    @settings(max_examples=examples, database=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy())
    def anything(case: Any) -> None:
        check(case)

    anything()


def test_what_is_made_up_is_answered_as_described(schema: Any) -> None:
    headers = {"Authorization": f"Bearer {make.make_key()}"}

    def about_anything(case: Any) -> None:
        _send(case, headers)

    def about_rows_that_are_there(case: Any) -> None:
        case.path_parameters = _known(case.path)
        _send(case, headers)

    for method, path in OPERATIONS:
        _try_many(schema[path][method], 6, about_anything)
        if "{" in path and method != "DELETE":
            _try_many(schema[path][method], 6, about_rows_that_are_there)


def test_what_is_made_up_is_refused_without_a_key(schema: Any) -> None:
    def about_anything(case: Any) -> None:
        assert _send(case, {"Authorization": ""}) == 401

    for method, path in OPERATIONS:
        _try_many(schema[path][method], 2, about_anything)


def test_what_is_there_keeps_to_the_document(schema: Any) -> None:
    headers = {"Authorization": f"Bearer {make.make_key()}"}
    for method, path in OPERATIONS:
        if method == "GET":
            assert _send(schema[path]["GET"].Case(path_parameters=_known(path)), headers) == 200, path
