"""Callers of the API, and what its answers and refusals must look like."""

from typing import Any

import msgspec
from django.http import HttpResponse
from django.test import Client

JSON = "application/json"
PROBLEM = "application/problem+json"


class Caller:
    """A key's holder. Paths begin below /api; bodies are sent as JSON unless they are bytes."""

    def __init__(self, key: str | None) -> None:
        self.client = Client(headers={"Authorization": f"Bearer {key}"} if key else {})

    def send(self, method: str, path: str, body: Any = None, *, content_type: str = JSON, **query: Any) -> HttpResponse:
        data = body if isinstance(body, bytes) else b"" if body is None else msgspec.json.encode(body)
        return self.client.generic(method, f"/api{path}", data, content_type=content_type, query_params=query)

    def get(self, path: str, **query: Any) -> Any:
        """What a GET that must succeed answers with."""
        return answer(self.send("GET", path, **query))

    def post(self, path: str, body: Any, *, status: int = 201) -> Any:
        """What a POST that must succeed answers with."""
        return answer(self.send("POST", path, body), status)

    def patch(self, path: str, body: Any) -> Any:
        return answer(self.send("PATCH", path, body))


def answer(response: HttpResponse, status: int = 200) -> Any:
    assert response.status_code == status, response.content
    assert response.headers["Content-Type"] == "application/json; charset=utf-8"
    return msgspec.json.decode(response.content)


def problem(response: HttpResponse, status: int, code: str, *fields: str) -> dict[str, Any]:
    """The problem document of a refusal; its errors name exactly `fields`."""
    assert response.status_code == status, response.content
    assert response.headers["Content-Type"] == PROBLEM
    found: dict[str, Any] = msgspec.json.decode(response.content)
    assert found["status"] == status
    assert found["code"] == code, found
    assert found["request_id"] == response.headers["X-Request-ID"]
    assert set(found) - {"run_id"} == {"type", "title", "status", "detail", "code", "request_id", "errors"}
    assert [error["field"] for error in found["errors"]] == list(fields), found["errors"]
    return found
