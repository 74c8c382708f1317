"""The document that describes the API, and the page that shows it."""

import re
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from django.test import Client

from tests.api.test_errors import ROUTES


@pytest.fixture
def document(client: Client) -> Any:
    response = client.get("/api/openapi.json")
    assert response.status_code == 200
    return msgspec.json.decode(response.content)


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
                assert "default" not in route["responses"]
                refusals = {status for status in route["responses"] if int(status) >= 400}
                assert {"401", "403", "422", "429"} <= refusals
                assert all("application/problem+json" in route["responses"][status]["content"] for status in refusals)
                assert ("requestBody" in route) == (method in ("post", "patch") and not path.endswith("/cancel"))
                statuses = [status for status in route["responses"] if int(status) < 400]
                assert statuses == (["200", "202"] if path.endswith("/generate") else statuses[:1])
                assert all(("content" in route["responses"][status]) == (status != "204") for status in statuses)
                names.add(route["operationId"])
        assert len(names) == len(ROUTES)

    def test_defines_every_shape_it_names(self, document: Any) -> None:
        named = set(re.findall(r'"#/components/schemas/([^"]+)"', msgspec.json.encode(document).decode()))
        assert named and named <= set(document["components"]["schemas"])

    def test_has_an_example_for_every_body_and_answer(self, document: Any) -> None:
        """A new route's example goes into compat_admin/api/examples.py, under the name of its function."""
        components = {"components": document["components"]}
        for path, methods in document["paths"].items():
            for method, route in methods.items():
                contents = [*route.get("requestBody", {}).get("content", {}).values()]
                for response in route["responses"].values():
                    contents += response.get("content", {}).values()
                for content in contents:
                    assert "example" in content, f"{method} {path}: {route['operationId']} has no example"
                    schema = {**content["schema"], **components}
                    problems = [
                        str(e) for e in jsonschema_rs.Draft202012Validator(schema).iter_errors(content["example"])
                    ]
                    assert not problems, f"{method} {path}: {problems}"

    def test_says_which_routes_honour_an_idempotency_key(self, document: Any) -> None:
        honouring = {
            route["operationId"]
            for methods in document["paths"].values()
            for route in methods.values()
            if any(each["name"] == "Idempotency-Key" for each in route.get("parameters", []))
        }
        assert {
            "create_thread",
            "clone_thread",
            "add_messages",
            "create_agent",
            "generate",
            "prepare",
            "stream",
        } <= honouring
        # What it answers with is kept for a day, and a key is shown once.
        assert not honouring & {"create_key", "create_token"}

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
