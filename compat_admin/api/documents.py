"""How routes are described in the OpenAPI document: from the very Structs that they read and write."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec

from compat_admin.api.bodies import JSON_TYPE
from compat_admin.api.errors import PROBLEM_TYPE, Problem

COMPONENTS: dict[str, Any] = {}
"""The shapes by name, filled while the routers are loaded."""


def documents(
    answer: Any = None,
    *,
    status: int = 200,
    body: Any = None,
    also: Mapping[int, Any] | None = None,
    media_type: str = JSON_TYPE,
    example: tuple[Any, Any] | None = None,
) -> dict[str, Any]:
    """Arguments for a router's decorator: what the route answers with, and what body it reads.

    Bodies are read by `read_body`, not by ninja, so they are described here only. Without an answer the response is
    empty. `also` names what comes with other statuses that are no failure. `example` is a body and its answer.
    """
    extra: dict[str, Any] = {
        "responses": {
            **{n: _response(n, shape, media_type) for n, shape in {status: answer, **(also or {})}.items()},
            "default": {"description": "A problem", "content": {PROBLEM_TYPE: {"schema": _schema(Problem)}}},
        }
    }
    if body is not None:
        extra["requestBody"] = {"required": True, "content": {JSON_TYPE: {"schema": _schema(body)}}}
    if example is not None:
        extra["requestBody"]["content"][JSON_TYPE]["example"] = example[0]
        extra["responses"][status]["content"][media_type]["example"] = example[1]
    if status == 200:
        return {"openapi_extra": extra}
    # Without this ninja would describe a 200 beside it.
    return {"response": {status: None}, "openapi_extra": extra}


def _response(status: int, answer: Any, media_type: str) -> dict[str, Any]:
    described: dict[str, Any] = {} if answer is None else {"content": {media_type: {"schema": _schema(answer)}}}
    return {"description": HTTPStatus(status).phrase, **described}


def _schema(shape: Any) -> dict[str, Any]:
    (schema,), components = msgspec.json.schema_components([shape], ref_template="#/components/schemas/{name}")
    COMPONENTS.update(components)
    return schema
