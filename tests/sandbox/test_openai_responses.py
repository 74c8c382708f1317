"""What the pretend Responses API refuses, each with the nearest request it accepts; its answers and its streams."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory.sandbox import Sandbox

Item = dict[str, Any]
KEY = {"authorization": "Bearer any"}
PATHS = {
    "openai": "/openai/v1/responses",
    "azure": "/azure/openai/v1/responses",
    "bedrock": "/bedrock/openai/v1/responses",
    "deepseek": "/deepseek/v1/responses",
    "openrouter": "/openrouter/api/v1/responses",
}
ASK: Item = {"role": "user", "content": "Look it up"}
TOOL: Item = {
    "type": "function",
    "name": "look_up",
    "parameters": {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]},
    "strict": False,
}


def call(call_id: str = "call_1", **keys: Any) -> Item:
    return {"type": "function_call", "call_id": call_id, "name": "look_up", "arguments": "{}", **keys}


def output(call_id: str = "call_1", value: Any = "done") -> Item:
    return {"type": "function_call_output", "call_id": call_id, "output": value}


def said(item_id: str, text: str = "Hello") -> Item:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": item_id, "role": "assistant", "status": "completed", "content": content}


def thought(item_id: str = "rs_1", **keys: Any) -> Item:
    return {"type": "reasoning", "id": item_id, "summary": [], **keys}


def post(client: httpx.Client, provider: str = "openai", **body: Any) -> httpx.Response:
    return client.post(PATHS[provider], json={"model": "gpt-4.1"} | body, headers=KEY)


# name: (further keys of the body, message, param, code, status)
REFUSED: dict[str, tuple[dict[str, Any], str, str | None, str | None, int]] = {
    "reasoning without the item behind it": (
        {"input": [ASK, thought(), ASK]},
        "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
        "input",
        None,
        400,
    ),
    "reasoning before a message that lost its id": (
        {"input": [ASK, thought(), {"role": "assistant", "content": "Hello"}]},
        "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
        "input",
        None,
        400,
    ),
    "an item of a reasoned answer without its reasoning": (
        {"input": [ASK, said("msg_rab12")]},
        "Item 'msg_rab12' of type 'message' was provided without its required 'reasoning' item: 'rs_rab12'.",
        "input",
        None,
        400,
    ),
    "a reference to what another provider keeps": (
        {"input": [{"type": "item_reference", "id": "srvtoolu_01"}]},
        "Item with id 'srvtoolu_01' not found.",
        "input",
        None,
        404,
    ),
    "reasoning by id alone where nothing is stored": (
        {"input": [ASK, thought(), said("msg_1")], "store": False},
        "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false. Try again with `store`"
        " set to true, or remove this item from your input.",
        "input",
        None,
        404,
    ),
    "an id with another prefix": (
        {"input": [ASK, call(id="item_1"), output()]},
        "Invalid 'input[1].id': 'item_1'. Expected an ID that begins with 'fc'.",
        "input[1].id",
        "invalid_value",
        400,
    ),
    "an empty id": (
        {"input": [ASK, said("")]},
        "Invalid 'input[1].id': ''. Expected an ID that contains letters, numbers, underscores, or dashes, but this"
        " value contained additional characters.",
        "input[1].id",
        "invalid_value",
        400,
    ),
    "an id twice": (
        {"input": [ASK, said("msg_1"), ASK, said("msg_1", "Again")]},
        "Duplicate item found with id msg_1. Remove duplicate items from your input and try again.",
        "input",
        None,
        400,
    ),
    "a seal of another maker": (
        {"input": [ASK, thought(encrypted_content="rsn_5ZVrc90="), said("msg_1")]},
        "The encrypted content rsn_...c90= could not be verified. Reason: Encrypted content could not be decrypted or"
        " parsed.",
        None,
        "invalid_encrypted_content",
        400,
    ),
    "an output without its call": (
        {"input": [ASK, output("call_9")]},
        "No tool call found for function call output with call_id call_9.",
        "input",
        None,
        400,
    ),
    "a call without its output": (
        {"input": [ASK, call("call_9"), ASK]},
        "No tool output found for function call call_9.",
        "input",
        None,
        400,
    ),
    "a call id of 65": (
        {"input": [ASK, call("c" * 65), output("c" * 65)]},
        "Invalid 'input[1].call_id': string too long. Expected a string with maximum length 64, but got a string with"
        " length 65 instead.",
        "input[1].call_id",
        "string_above_max_length",
        400,
    ),
    "an empty call id": (
        {"input": [ASK, call(""), output("")]},
        "Invalid 'input[1].call_id': empty string. Expected a string with minimum length 1, but got an empty string"
        " instead.",
        "input[1].call_id",
        "empty_string",
        400,
    ),
    "an assistant's text as input": (
        {"input": [{"role": "assistant", "content": [{"type": "input_text", "text": "a"}]}]},
        "Invalid value: 'input_text'. Supported values are: 'output_text' and 'refusal'.",
        "input[0].content[0]",
        "invalid_value",
        400,
    ),
    "a response that is not known": (
        {"input": [ASK], "previous_response_id": "resp_gone"},
        "Previous response with id 'resp_gone' not found.",
        "previous_response_id",
        "previous_response_not_found",
        400,
    ),
    "an unknown key": ({"input": [ASK], "stop": ["."]}, "Unknown parameter: 'stop'.", "stop", "unknown_parameter", 400),
    "an unknown key of an item": (
        {"input": [ASK, {**call(), "index": 0}, output()]},
        "Unknown parameter: 'input[1].index'.",
        "input[1].index",
        "unknown_parameter",
        400,
    ),
    "a role of another protocol": (
        {"input": [ASK, {"role": "tool", "content": "done"}]},
        "Invalid value: 'tool'. Supported values are: 'assistant', 'system', 'developer', and 'user'.",
        "input[1]",
        "invalid_value",
        400,
    ),
    "a name with a dot": (
        {"input": [ASK], "tools": [{**TOOL, "name": "look.up"}]},
        "Invalid 'tools[0].name': string does not match pattern. Expected a string that matches the pattern"
        " '^[a-zA-Z0-9_-]+$'.",
        "tools[0].name",
        "invalid_value",
        400,
    ),
    "a temperature for a reasoning model": (
        {"input": [ASK], "model": "o4-mini", "temperature": 0.2},
        "Unsupported parameter: 'temperature' is not supported with this model.",
        "temperature",
        None,
        400,
    ),
}

ACCEPTED: dict[str, dict[str, Any]] = {
    "a text": {"input": "Hello"},
    "reasoning with its item": {"input": [ASK, thought(encrypted_content="gAAAAx"), said("msg_1")]},
    "items of a reasoned answer together": {"input": [ASK, thought("rs_rab12"), said("msg_rab12")]},
    "an item without its id": {"input": [ASK, {"role": "assistant", "content": "Hello"}]},
    "a sealed reasoning where nothing is stored": {
        "input": [ASK, thought(encrypted_content="gAAAAx"), said("msg_1")],
        "store": False,
    },
    "an output behind other items": {"input": [ASK, call(), {"role": "assistant", "content": "Wait"}, output()]},
    "an output whose call lies in the conversation": {"input": [output("call_9")], "conversation": "conv_1"},
    "an output whose call lies in the response before": {
        "input": [output("call_9")],
        "previous_response_id": "resp_" + "0" * 48,
    },
    "a call id of 64": {"input": [ASK, call("c" * 64), output("c" * 64)]},
    "a picture as output": {
        "input": [ASK, call(), output(value=[{"type": "input_image", "image_url": "https://a.invalid/b.png"}])]
    },
}


class TestRefusals:
    @pytest.mark.parametrize("name", REFUSED)
    def test_are_worded_as_the_vendor_does(self, client: httpx.Client, name: str) -> None:
        body, message, param, code, status = REFUSED[name]
        response = post(client, **body)
        error = response.json()["error"]
        assert (error["message"], error["param"], error["code"]) == (message, param, code)
        assert (response.status_code, error["type"]) == (status, "invalid_request_error")

    @pytest.mark.parametrize("name", ACCEPTED)
    def test_spare_what_the_vendor_takes(self, client: httpx.Client, name: str) -> None:
        assert post(client, **ACCEPTED[name]).status_code == 200

    def test_of_foreign_ids_are_openais_alone(self, client: httpx.Client) -> None:
        body: dict[str, Any] = {"input": [ASK, thought("fa6f3a83-5d25"), call(), output()]}
        assert post(client, **body).status_code == 400
        assert post(client, "deepseek", **body).status_code == 200

    def test_need_a_key(self, client: httpx.Client) -> None:
        assert client.post(PATHS["openai"], json={"model": "m", "input": "a"}).status_code == 401


class TestAzure:
    def test_takes_its_own_header(self, client: httpx.Client) -> None:
        body = {"model": "gpt-4.1", "input": "a"}
        assert client.post(PATHS["azure"], json=body).json()["error"]["code"] == "401"
        assert client.post(PATHS["azure"], json=body, headers={"api-key": "any"}).status_code == 200

    @pytest.mark.parametrize(
        ("path", "body"),
        [
            (PATHS["azure"], {"model": "gpt-4.1", "input": [{"role": "user", "content": "<system-reminder>a"}]}),
            (
                "/azure/openai/deployments/mine/chat/completions?api-version=2024-10-21",
                {"messages": [{"role": "user", "content": [{"type": "text", "text": "<system-reminder>a"}]}]},
            ),
        ],
    )
    def test_filters_tags_that_look_like_instructions(
        self, client: httpx.Client, path: str, body: dict[str, Any]
    ) -> None:
        response = client.post(path, json=body, headers=KEY)
        assert response.status_code == 400
        assert response.json()["error"]["innererror"] == {"code": "ResponsibleAIPolicyViolation"}
        told = msgspec.json.decode(msgspec.json.encode(body).replace(b"<system-reminder>", b"<reminder>"))
        assert client.post(path, json=told, headers=KEY).status_code == 200

    def test_names_the_model_by_the_deployment(self, client: httpx.Client) -> None:
        path = "/azure/openai/deployments/mine/chat/completions?api-version=2024-10-21"
        response = client.post(path, json={"messages": [{"role": "user", "content": "a"}]}, headers=KEY)
        assert response.json()["model"] == "mine"


class TestAnswers:
    def test_say_the_same_each_time(self, client: httpx.Client) -> None:
        first, second = (post(client, input="Hello").content for _ in range(2))
        assert first == second
        assert msgspec.json.decode(first)["output"][0]["content"][0]["text"] == "You said: Hello"

    def test_call_what_is_named_and_can_be_answered(self, client: httpx.Client) -> None:
        asked: Item = {"role": "user", "content": "Please look_up"}
        body: dict[str, Any] = {"model": "o4-mini", "tools": [TOOL], "reasoning": {"summary": "auto"}}
        body["include"] = ["reasoning.encrypted_content"]
        items = post(client, input=[asked], **body).json()["output"]
        assert [item["type"] for item in items] == ["reasoning", "function_call"]
        assert items[0]["summary"][0]["text"] == "The user wants look_up."
        assert items[1]["arguments"] == '{"q":"example"}'
        answered = post(client, input=[asked, *items, output(items[1]["call_id"])], **body, store=False).json()
        assert [item["type"] for item in answered["output"]] == ["reasoning", "message"]
        without = post(client, input=[asked, items[1], output(items[1]["call_id"])], **body)
        assert "without its required 'reasoning' item" in without.json()["error"]["message"]

    @pytest.mark.parametrize("choice", ["required", {"type": "function", "name": "look_up"}])
    def test_call_when_they_must(self, client: httpx.Client, choice: Any) -> None:
        items = post(client, input="Hello", tools=[TOOL], tool_choice=choice).json()["output"]
        assert [item["type"] for item in items] == ["function_call"]

    def test_stream_what_they_say_as_a_whole(self, client: httpx.Client) -> None:
        body: dict[str, Any] = {
            "model": "gpt-5",
            "input": "Please look_up",
            "tools": [TOOL],
            "reasoning": {"summary": "auto"},
        }
        response = post(client, **body, stream=True)
        assert response.headers["content-type"].startswith("text/event-stream")
        events = [msgspec.json.decode(line[6:]) for line in response.text.splitlines() if line.startswith("data: ")]
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        whole = events[-1]["response"]
        assert whole["status"] == "completed"
        done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
        assert done == whole["output"]
        fragments = "".join(e["delta"] for e in events if e["type"] == "response.function_call_arguments.delta")
        assert fragments == whole["output"][1]["arguments"]

    def test_fail_as_scripted(self, client: httpx.Client, sandbox: Sandbox) -> None:
        sandbox.script("openai", status=429)
        response = post(client, input="Hello")
        assert (response.status_code, response.json()["error"]["code"]) == (429, "rate_limit_exceeded")


class TestNonsense:
    @settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(data=st.data())
    def test_is_answered_or_refused(self, client: httpx.Client, data: st.DataObject) -> None:
        body = copy.deepcopy(EVERYTHING)
        assert post(client, **body).status_code == 200

        container, key = data.draw(st.sampled_from(list(places(body))))
        container[key] = data.draw(st.sampled_from([None, 1, True, "", "x", [], [1], {}, {"type": "x"}, {"type": []}]))
        assert post(client, **body).status_code in (200, 400, 404)


EVERYTHING: dict[str, Any] = {
    "input": [
        {"role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]},
        {"role": "user", "content": [{"type": "input_file", "file_data": "data:text/plain;base64,YQ=="}]},
        thought(encrypted_content="gAAAAx"),
        said("msg_1"),
        call(id="fc_1"),
        output(value=[{"type": "input_image", "image_url": "https://example.invalid/a.png"}]),
        {"type": "custom_tool_call", "call_id": "call_2", "name": "sql", "input": "SELECT 1"},
        {"type": "custom_tool_call_output", "call_id": "call_2", "output": "1"},
        {"type": "item_reference", "id": "ws_1"},
        {"role": "user", "content": "Please look_up"},
    ],
    "tools": [TOOL, {"type": "web_search"}],
    "tool_choice": "auto",
    "reasoning": {"effort": "low", "summary": "auto"},
    "include": ["reasoning.encrypted_content"],
    "stream": True,
}


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container of a JSON value with every key or index in it."""
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from places(value[key])


class TestRecordedRequests:
    def test_that_were_answered_are_accepted(self, client: httpx.Client, recordings_dir: Path) -> None:
        count, refused = 0, []
        for provider, exchange in recorded(recordings_dir):
            if exchange["status"] == 200:
                response = client.post(PATHS[provider], json=exchange["request"], headers=KEY)
                count += 1
                if response.status_code != 200:
                    refused.append((exchange["id"], response.text))
        assert refused == []
        assert count >= 169

    def test_that_were_refused_are_refused_alike(self, client: httpx.Client, recordings_dir: Path) -> None:
        count = 0
        for provider, exchange in recorded(recordings_dir):
            if exchange["status"] == 400:
                response = client.post(PATHS[provider], json=exchange["request"], headers=KEY)
                error = exchange["response"]["error"]
                assert (response.status_code, response.json()["error"]) == (400, error), exchange["id"]
                count += 1
        assert count >= 4


def recorded(folder: Path) -> list[tuple[str, dict[str, Any]]]:
    out = []
    for provider in PATHS:
        name = "openai-responses" if provider == "openai" else provider
        for line in (folder / f"{name}.jsonl").read_bytes().splitlines():
            exchange = msgspec.json.decode(line)
            if exchange["protocol"] == "openai-responses" and exchange["request"] is not None:
                out.append((provider, exchange))
    return out
