"""How routes are described in the OpenAPI document: from the very Structs that they read and write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from msgspec import Struct

from compat_admin.api.bodies import JSON_TYPE
from compat_admin.api.errors import PROBLEM_TYPE, Problem
from compat_admin.api.examples import EXAMPLES, REFUSED
from compat_admin.api.repeats import HEADER, REPEATABLE
from memory.queries import Page

EVENT_STREAM = "text/event-stream"


class ServerEvent(Struct, frozen=True):
    """One server-sent event; `data` is a JSON text."""

    id: str
    event: str
    data: str


COMPONENTS: dict[str, Any] = {}
"""The shapes by name, filled while the routers are loaded."""


def documents(
    answer: Any = None,
    *,
    status: int = 200,
    body: Any = None,
    also: Mapping[int, Any] | None = None,
    media_type: str = JSON_TYPE,
    has_fields: bool = False,
    example: tuple[Any, Any] | None = None,
) -> dict[str, Any]:
    """Arguments for a router's decorator: what the route answers with, and what body it reads.

    Bodies are read by `read_body`, not by ninja, so they are described here only. Without an answer the response is
    empty. `also` names what comes with other statuses that are no failure. With `has_fields` an answer, or the items
    of a page, may come with some of their fields only. `example` is a body and its answer, for a route that has none in
    `EXAMPLES`. Refusals are added by `complete`.
    """
    shapes = {status: answer, **(also or {})}
    extra: dict[str, Any] = {"responses": {n: _response(n, shape, media_type) for n, shape in shapes.items()}}
    if has_fields:
        content = extra["responses"][status]["content"][media_type]
        partial = Page[dict[str, Any]] if getattr(answer, "__origin__", None) is Page else dict[str, Any]
        content["schema"] = {"anyOf": [content["schema"], _schema(partial)]}
    if body is not None:
        extra["requestBody"] = {"required": True, "content": {JSON_TYPE: {"schema": _schema(body)}}}
    if example is not None:
        extra["requestBody"]["content"][JSON_TYPE]["example"] = example[0]
        extra["responses"][status]["content"][media_type]["example"] = example[1]
    if status == 200:
        return {"openapi_extra": extra}
    # Without this ninja would describe a 200 beside it.
    return {"response": {status: None}, "openapi_extra": extra}


def complete(document: dict[str, Any], *, permissions: Mapping[str, str]) -> None:
    """Add to each route what all have in common: how they refuse, what a key needs, examples, repeats.

    `permissions` are by operation id.
    """
    for path, methods in document["paths"].items():
        for method, route in methods.items():
            name = route["operationId"]
            permission = permissions.get(name, "")
            route["description"] = f"{route.get('description', '')}\n\nNeeds `{permission}`."
            for status in _refusals(path, method, permission, has_body="requestBody" in route):
                route["responses"].setdefault(str(status), _refused(status))
            if name in REPEATABLE:
                route.setdefault("parameters", []).append(HEADER)
            _add_examples(route, EXAMPLES.get(name, {}))
    document["components"]["schemas"].update(COMPONENTS)


def _refusals(path: str, method: str, permission: str, *, has_body: bool) -> Iterable[int]:
    yield from (400, 401, 403)
    if "{" in path or has_body:  # A body may name what is not there.
        yield 404
    if method != "get":
        yield 409
    if has_body:
        yield from (413, 415)
    yield from (422, 429)
    if permission == "run":
        yield from (502, 503)


def _refused(status: int) -> dict[str, Any]:
    example = {**REFUSED, "status": status, "title": HTTPStatus(status).phrase}
    described: dict[str, Any] = {
        "description": HTTPStatus(status).phrase,
        "content": {PROBLEM_TYPE: {"schema": _schema(Problem), "example": example}},
    }
    if status in (429, 503):
        seconds = {"description": "Seconds to wait.", "schema": {"type": "integer", "minimum": 0}}
        described["headers"] = {"Retry-After": seconds}
    return described


def _add_examples(route: dict[str, Any], examples: Mapping[str, Any]) -> None:
    if "requestBody" in route and "body" in examples:
        for content in route["requestBody"]["content"].values():
            content["example"] = examples["body"]
    for status, response in route["responses"].items():
        if int(status) < 400 and "answer" in examples:
            for content in response.get("content", {}).values():
                content["example"] = examples.get(f"answer_{status}", examples["answer"])


def _response(status: int, answer: Any, media_type: str) -> dict[str, Any]:
    described: dict[str, Any] = {}
    if answer is not None:
        schema = _schema(answer)
        if media_type == EVENT_STREAM:
            # OpenAPI 3.1 has no word for a stream: readers of the document see a text, or its events one by one.
            schema = {"anyOf": [schema, _schema(ServerEvent)]}
        described = {"content": {media_type: {"schema": schema}}}
    return {"description": HTTPStatus(status).phrase, **described}


def _schema(shape: Any) -> dict[str, Any]:
    (schema,), components = msgspec.json.schema_components([shape], ref_template="#/components/schemas/{name}")
    COMPONENTS.update(components)
    return schema
