"""What the pretend Gemini API and Vertex refuse, how they say so, and what they answer."""

import copy
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory.messages.prompt import Message, Output, Prompt, Text, ToolCall, ToolResult
from memory.providers.gemini_contents import as_stream, decode_reply, decode_stream, encode_request
from memory.providers.gemini_contents import decode_error as read_error
from memory.providers.wire import Finished, Settings, Tool
from memory.sandbox import Sandbox
from tests.sandbox.conftest import HEADERS, PATHS
from tests.sandbox.test_recordings import exchanges

VERTEX_BASE = "/vertex/v1/projects/p/locations/global/publishers/google"
SKIP = "skip_thought_signature_validator"


class Caller:
    """Sends contents to one model of a platform."""

    def __init__(self, client: httpx.Client, provider: str = "gemini", model: str = "gemini-3-flash-preview") -> None:
        self.client = client
        self.provider = provider
        self.base = f"/gemini/v1beta/models/{model}" if provider == "gemini" else f"{VERTEX_BASE}/models/{model}"

    def post(self, *contents: Any, **body: Any) -> httpx.Response:
        sent = {"contents": list(contents), **body}
        return self.client.post(f"{self.base}:generateContent", json=sent, headers=HEADERS[self.provider])

    def refusal(self, *contents: Any, **body: Any) -> str:
        """The message of a 400; fails when the request is accepted or the error is another one."""
        response = self.post(*contents, **body)
        assert response.status_code == 400, response.text
        error = response.json()["error"]
        assert (error["code"], error["status"]) == (400, "INVALID_ARGUMENT")
        return str(error["message"])

    def accepted(self, *contents: Any, **body: Any) -> dict[str, Any]:
        response = self.post(*contents, **body)
        assert response.status_code == 200, response.text
        reply: dict[str, Any] = response.json()
        return reply


@pytest.fixture
def gemini(client: httpx.Client) -> Caller:
    return Caller(client)


@pytest.fixture
def old(client: httpx.Client) -> Caller:
    return Caller(client, model="gemini-2.5-pro")


@pytest.fixture
def vertex(client: httpx.Client) -> Caller:
    return Caller(client, "vertex")


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "parts": [{"text": part} if isinstance(part, str) else part for part in parts]}


def model(*parts: Any) -> dict[str, Any]:
    return {**user(*parts), "role": "model"}


def call(name: str = "look", *, signature: str | None = SKIP, **more: Any) -> dict[str, Any]:
    signed = {} if signature is None else {"thoughtSignature": signature}
    return {"functionCall": {"name": name, "args": {}, **more}, **signed}


def answer(name: str = "look", **more: Any) -> dict[str, Any]:
    return {"functionResponse": {"name": name, "response": {"ok": True}, **more}}


ASK = user("Look")


class TestSignatures:
    def test_are_wanted_on_the_first_call_of_each_step_of_the_turn(self, gemini: Caller) -> None:
        steps = [ASK, model(call()), user(answer()), model(call("list", signature=None)), user(answer("list"))]

        assert gemini.refusal(*steps) == (
            "Function call is missing a thought_signature in functionCall parts. This is required for tools to work"
            " correctly, and missing thought_signature may lead to degraded model performance. Additional data,"
            " function call `default_api:list` , position 4."
        )
        gemini.accepted(ASK, model(call(), call(signature=None)), user(answer(), answer()))
        gemini.accepted(*steps, user("And now?"))

    def test_are_not_looked_for_by_earlier_models(self, old: Caller) -> None:
        old.accepted(ASK, model(call(signature=None)), user(answer()))

    @pytest.mark.parametrize("signature", ["not base64!", "", "{}"])
    def test_that_are_none_are_corrupted(self, gemini: Caller, vertex: Caller, signature: str) -> None:
        steps = [ASK, model(call(signature=signature)), user(answer())]

        assert gemini.refusal(*steps) == "Corrupted thought signature."
        assert vertex.refusal(*steps) == "Unable to submit request because Thought signature is not valid.."

    def test_are_good_on_the_platform_that_made_them_alone(self, gemini: Caller, vertex: Caller) -> None:
        tools = [{"functionDeclarations": [{"name": "look"}]}]
        made = gemini.accepted(user("look"), tools=tools)["candidates"][0]["content"]
        steps = [user("look"), made, user(answer())]

        gemini.accepted(*steps)
        assert "not valid" in vertex.refusal(*steps)

    def test_may_come_in_the_alphabet_of_addresses(self, gemini: Caller) -> None:
        gemini.accepted(ASK, model(call(signature="c2ln-_8")), user(answer()))


class TestTurns:
    COUNT = (
        "Please ensure that the number of function response parts is equal to the number of function call parts of the"
        " function call turn."
    )

    @pytest.mark.parametrize("responses", [[], [answer()], [answer(), answer(), answer()]])
    def test_answer_each_call_once(self, gemini: Caller, responses: list[Any]) -> None:
        calls = model(call(), call(signature=None))

        assert gemini.refusal(ASK, calls, user(*responses, "next")) == self.COUNT

    def test_of_two_model_contents_are_answered_in_one(self, gemini: Caller, old: Caller) -> None:
        steps = [ASK, model(call()), model(call()), user(answer(), answer())]

        gemini.accepted(*steps)
        assert "function call turn comes immediately after a user turn" in old.refusal(*steps)

    def test_begin_with_the_user(self, gemini: Caller) -> None:
        assert gemini.refusal(model("Let me look."), model(call()), user(answer())) == (
            "Please ensure that function call turn comes immediately after a user turn or after a function response"
            " turn."
        )

    def test_keep_responses_behind_their_calls(self, gemini: Caller) -> None:
        refused = "Please ensure that function response turn comes immediately after a function call turn."

        assert gemini.refusal(ASK, user(answer())) == refused
        assert gemini.refusal(ASK, model(call()), user(answer()), user(answer())) == refused
        assert gemini.refusal(user(answer())) == refused

    def test_end_with_the_user(self, gemini: Caller) -> None:
        assert "end with a user role" in gemini.refusal(ASK, model("I see."))

    def test_have_one_of_two_roles(self, gemini: Caller) -> None:
        message = gemini.refusal({"role": "system", "parts": [{"text": "a"}]})

        assert message == "Please use a valid role: user, model."
        gemini.accepted({"parts": [{"text": "a"}]})


class TestParts:
    @pytest.mark.parametrize(
        ("part", "message"),
        [
            ({"functionCall": {"name": "9 lives"}}, "contents[0].parts[0].function_call.name: [FIELD_INVALID] Invalid"),
            ({"functionCall": {"name": "f" * 65}}, "[FIELD_INVALID] Invalid function name. Must start with a letter"),
            ({"functionCall": {"name": "f", "args": "{}"}}, '(type.googleapis.com/google.protobuf.Struct), "{}"'),
            (
                {"functionResponse": {"response": {}}},
                "* GenerateContentRequest.contents[0].parts[0].function_response.name: Name cannot be empty.",
            ),
            (
                {"functionResponse": {"name": "f", "response": "ok"}},
                "Invalid value at 'contents[0].parts[0].function_response.response'"
                ' (type.googleapis.com/google.protobuf.Struct), "ok"',
            ),
            ({"inlineData": {"mimeType": "image/jpg", "data": "aGk="}}, "Unsupported MIME type: image/jpg"),
            ({"inlineData": {"mimeType": "png", "data": "aGk="}}, "Unsupported MIME type: png"),
            ({"inlineData": {"mimeType": "image/png", "data": "!"}}, "Base64 decoding failed"),
            (
                {"text": "a", "signature": "b"},
                "Unknown name \"signature\" at 'contents[0].parts[0]': Cannot find field.",
            ),
            ({"text": "a", "inlineData": {}}, "oneof field 'data' is already set"),
            ({"text": 3}, "Invalid value at 'contents[0].parts[0].text'"),
        ],
    )
    def test_that_do_not_fit_are_refused(self, gemini: Caller, part: dict[str, Any], message: str) -> None:
        assert message in gemini.refusal(user(part))

    def test_may_not_be_missing_or_empty(self, gemini: Caller, old: Caller, vertex: Caller) -> None:
        empty = "* GenerateContentRequest.contents[1].parts: contents.parts must not be empty."

        assert gemini.refusal(ASK, model(), ASK) == empty
        assert gemini.refusal(ASK, model(""), ASK) == empty
        assert old.refusal(ASK, user("")) == empty
        assert vertex.refusal(ASK, user("")) == "Unable to submit request because it must have a text parameter."
        gemini.accepted(user(""))
        gemini.accepted(ASK, model({"text": "", "thoughtSignature": "c2ln"}), ASK)

    def test_may_be_spelt_in_snake_case(self, vertex: Caller) -> None:
        signed = {"function_call": {"name": "look", "args": {}}, "thought_signature": "c2ln"}

        vertex.accepted(ASK, model(signed), user({"function_response": {"name": "look", "response": {}}}))


class TestRequests:
    def test_need_a_key_or_a_token(self, client: httpx.Client) -> None:
        responses = [client.post(PATHS[name], json={"contents": [ASK]}) for name in ("gemini", "vertex")]

        assert [response.status_code for response in responses] == [403, 401]
        assert [r.json()["error"]["status"] for r in responses] == ["PERMISSION_DENIED", "UNAUTHENTICATED"]

    def test_have_known_keys(self, gemini: Caller) -> None:
        assert 'Unknown name "messages": Cannot find field.' in gemini.refusal(ASK, messages=[])
        assert "Unknown name \"top_q\" at 'generation_config'" in gemini.refusal(ASK, generationConfig={"top_q": 1})
        gemini.accepted(ASK, generation_config={"top_p": 1, "thinkingConfig": {"thinkingBudget": 0}})

    def test_declare_tools_by_good_names(self, gemini: Caller) -> None:
        message = gemini.refusal(ASK, tools=[{"functionDeclarations": [{"name": "ok"}, {"name": "1up"}]}])

        assert message.startswith("tools[0].function_declarations[1].name: [FIELD_INVALID] Invalid function name.")

    def test_over_their_limit_are_told_to_wait_in_the_body(
        self, gemini: Caller, vertex: Caller, sandbox: Sandbox
    ) -> None:
        for caller, wait in ((gemini, 20_000), (vertex, None)):
            sandbox.script(caller.provider, status=429)
            response = caller.post(ASK)
            error = read_error(429, response.headers, response.text, provider=caller.provider)
            assert (error.error_class, error.is_retryable, error.retry_after_ms) == ("rate-limit", True, wait)

    @pytest.mark.parametrize("provider", ["gemini", "vertex"])
    @settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(data=st.data())
    def test_of_any_nonsense_are_answered(self, client: httpx.Client, data: st.DataObject, provider: str) -> None:
        whole = (Path(__file__).parent.parent / "payloads" / "gemini" / "every_part.json").read_bytes()
        body = msgspec.json.decode(whole)
        container, key = data.draw(st.sampled_from(list(_places(body))))
        container[key] = copy.deepcopy(data.draw(st.sampled_from([None, 0, "x", "", [], {}, [[]], {"text": 1}])))
        response = client.post(PATHS[provider], json=body, headers=HEADERS[provider])

        assert response.status_code in (200, 400), response.text


def _places(value: Any) -> Any:
    """Every container of a JSON value with every key or index in it."""
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from _places(value[key])


class TestAnswers:
    TOOL = Tool("look", "Look up", {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]})

    @pytest.mark.parametrize(("provider", "base"), [("gemini", "/gemini/v1beta"), ("vertex", VERTEX_BASE)])
    def test_are_the_same_whole_and_in_pieces_and_go_on(self, client: httpx.Client, provider: str, base: str) -> None:
        thinking = {"generationConfig": {"thinkingConfig": {"includeThoughts": True}}}
        made = Settings("gemini-3-flash-preview", tools=(self.TOOL,), extra=thinking)
        messages = [Message("user", (Text("Please look."),))]
        encoded = encode_request(Prompt(tuple(messages)), made, provider=provider)
        headers = {**HEADERS[provider], "content-type": "application/json"}
        whole = client.post(base + encoded.path, content=encoded.body, headers=headers)
        streamed = as_stream(encoded, provider=provider)
        pieces = client.post(base + streamed.path, content=streamed.body, headers=headers)

        reply = decode_reply(whole.json(), provider=provider)
        last = list(decode_stream([pieces.content], provider=provider))[-1]
        assert isinstance(last, Finished)
        assert last.reply == reply
        assert (reply.finish_reason, [type(part).__name__ for part in reply.parts]) == (
            "tool-calls",
            ["Reasoning", "ToolCall"],
        )
        call = reply.parts[1]
        assert isinstance(call, ToolCall)
        assert (call.name, call.input) == ("look", {"q": "example"})
        result = ToolResult(call.id, "look", Output("text", "a boat"))
        messages += [Message("assistant", reply.parts), Message("tool", (result,))]
        again = encode_request(Prompt(tuple(messages)), made, provider=provider)
        answered = client.post(base + again.path, content=again.body, headers=headers)
        assert answered.status_code == 200, answered.text
        assert decode_reply(answered.json(), provider=provider).finish_reason == "stop"

    def test_call_what_they_must(self, gemini: Caller) -> None:
        tools = [{"functionDeclarations": [{"name": "a"}, {"name": "b", "parameters": {"type": "OBJECT"}}]}]
        calling = {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["b"]}}

        (part,) = gemini.accepted(ASK, tools=tools, toolConfig=calling)["candidates"][0]["content"]["parts"]

        assert part["functionCall"] == {"name": "b", "args": {}}


class TestRecordedRequests:
    @pytest.mark.parametrize(("provider", "least"), [("gemini", 191), ("vertex", 71)])
    def test_that_were_answered_are_accepted(
        self, client: httpx.Client, recordings_dir: Path, provider: str, least: int
    ) -> None:
        count, refused = 0, []
        for exchange in exchanges(recordings_dir, provider):
            if exchange["protocol"] == "gemini-contents" and exchange["status"] == 200:
                path = f"/{provider}{exchange['path']}"
                response = client.post(path, json=exchange["request"], headers=HEADERS[provider])
                count += 1
                if response.status_code != 200:
                    refused.append((exchange["id"], response.text))

        assert refused == []
        assert count >= least
