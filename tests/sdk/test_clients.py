"""The vendors' own client libraries speak to the sandbox and read its answers, so these look like the vendors'.

The libraries are imported where they are used: they are slow. None retries here, so that each failure is seen.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlsplit

import pytest

from memory.hosts import HOSTS as KNOWN_BY_FACTS
from memory.sandbox import Sandbox
from tests.sandbox.demo_threads import MODELS

SAYS = "You said: Hello over there"
THOUGHT = "The user wants to be repeated."
HELLO: list[Any] = [{"role": "user", "content": "Hello over there"}]
ASK: list[Any] = [{"role": "user", "content": "Please find and look"}]
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
CHAT_TOOLS: list[Any] = [
    {"type": "function", "function": {"name": name, "description": name, "parameters": SCHEMA}}
    for name in ("find", "look")
]
ARGUMENTS = {"q": "example"}


class TestAnthropic:
    MODEL = "claude-sonnet-4-6"
    TOOLS: list[Any] = [{"name": name, "input_schema": SCHEMA} for name in ("find", "look")]
    THINKING: Any = {"type": "enabled", "budget_tokens": 1024}

    @pytest.fixture
    def client(self, sandbox: Sandbox) -> Any:
        import anthropic

        return anthropic.Anthropic(base_url=f"{sandbox.url}/anthropic", api_key="any", max_retries=0)

    def test_reads_text_and_thinking(self, client: Any) -> None:
        message = client.messages.create(model=self.MODEL, max_tokens=2048, thinking=self.THINKING, messages=HELLO)

        assert [block.type for block in message.content] == ["thinking", "text"]
        assert (message.content[0].thinking, message.content[1].text) == (THOUGHT, SAYS)
        assert (message.stop_reason, message.usage.output_tokens > 0) == ("end_turn", True)

    def test_reads_calls_and_sends_them_back(self, client: Any) -> None:
        made = {"model": self.MODEL, "max_tokens": 2048, "thinking": self.THINKING, "tools": self.TOOLS}
        message = client.messages.create(**made, messages=ASK)

        calls = [block for block in message.content if block.type == "tool_use"]
        assert [(call.name, call.input) for call in calls] == [("find", ARGUMENTS), ("look", ARGUMENTS)]
        results = [{"type": "tool_result", "tool_use_id": call.id, "content": "found"} for call in calls]
        turns = [*ASK, {"role": "assistant", "content": message.content}, {"role": "user", "content": results}]
        assert client.messages.create(**made, messages=turns).stop_reason == "end_turn"

    @pytest.mark.parametrize("messages", [HELLO, ASK])
    def test_reads_streams_to_the_same_message(self, client: Any, messages: list[Any]) -> None:
        made = {"model": self.MODEL, "max_tokens": 2048, "thinking": self.THINKING, "tools": self.TOOLS}
        whole = client.messages.create(**made, messages=messages)
        with client.messages.stream(**made, messages=messages) as stream:
            streamed = stream.get_final_message()

        kept = {"type", "text", "thinking", "signature", "name", "input"}
        assert [block.model_dump(include=kept) for block in streamed.content] == [
            block.model_dump(include=kept) for block in whole.content
        ]
        assert streamed.stop_reason == whole.stop_reason

    def test_may_hold_a_token_in_place_of_a_key(self, sandbox: Sandbox) -> None:
        import anthropic

        client = anthropic.Anthropic(base_url=f"{sandbox.url}/anthropic", auth_token="any", max_retries=0)

        assert client.messages.create(model=self.MODEL, max_tokens=10, messages=HELLO).content[0].text == SAYS

    @pytest.mark.parametrize(("provider", "model"), [("deepseek", "deepseek-v4-pro"), ("moonshot", "kimi-k2.6")])
    def test_reads_the_hosts_of_its_protocol(self, sandbox: Sandbox, provider: str, model: str) -> None:
        import anthropic

        client = anthropic.Anthropic(base_url=f"{sandbox.url}/{provider}/anthropic", api_key="any", max_retries=0)
        made = {"model": model, "max_tokens": 2048, "tools": self.TOOLS, "messages": ASK}
        whole = client.messages.create(**made)
        with client.messages.stream(**made) as stream:
            streamed = stream.get_final_message()
        assert [block.type for block in streamed.content] == [block.type for block in whole.content]
        assert [block.type for block in whole.content] == ["thinking", "tool_use", "tool_use"]
        sandbox.script(provider, failure="rate-limit")
        with pytest.raises(anthropic.RateLimitError):
            client.messages.create(**made)

    def test_names_errors(self, client: Any, sandbox: Sandbox) -> None:
        import anthropic

        def create(**more: Any) -> Any:
            return client.messages.create(**{"model": self.MODEL, "max_tokens": 10, "messages": HELLO, **more})

        with pytest.raises(anthropic.BadRequestError, match="text content blocks must be non-empty"):
            create(messages=[{"role": "user", "content": [{"type": "text", "text": ""}]}])
        sandbox.script("anthropic", failure="rate-limit")
        with pytest.raises(anthropic.RateLimitError) as limited:
            create()
        assert limited.value.response.headers["retry-after"] == "7"
        sandbox.script("anthropic", failure="overloaded")
        with pytest.raises(anthropic.APIStatusError) as overloaded:
            create()
        assert overloaded.value.status_code == 529
        sandbox.script("anthropic", failure="overloaded", after=3)
        with pytest.raises(anthropic.APIStatusError, match="Overloaded"):
            list(create(stream=True))


class TestOpenAI:
    @pytest.fixture
    def client(self, sandbox: Sandbox) -> Any:
        return openai_client(sandbox, "openai")

    @pytest.mark.parametrize("messages", [HELLO, ASK])
    def test_reads_completions_whole_and_streamed(self, client: Any, messages: list[Any]) -> None:
        made = {"model": "gpt-4o", "messages": messages, "tools": CHAT_TOOLS}
        whole = client.chat.completions.create(**made).choices[0]
        with client.chat.completions.stream(**made, stream_options={"include_usage": True}) as stream:
            completion = stream.get_final_completion()

        streamed = completion.choices[0]
        assert streamed.finish_reason == whole.finish_reason == ("stop" if messages is HELLO else "tool_calls")
        assert streamed.message.content == whole.message.content == (SAYS if messages is HELLO else None)
        assert called(streamed.message) == called(whole.message)
        assert completion.usage.total_tokens > 0

    def test_reads_responses_whole_and_streamed(self, client: Any) -> None:
        tools = [{"type": "function", "name": "find", "parameters": SCHEMA}]
        for text, kinds in (("Hello over there", ["reasoning", "message"]), ("find", ["reasoning", "function_call"])):
            made: dict[str, Any] = {
                "model": "gpt-5-mini",
                "input": text,
                "tools": tools,
                "reasoning": {"effort": "low", "summary": "auto"},
                "include": ["reasoning.encrypted_content"],
            }
            whole = client.responses.create(**made)
            with client.responses.stream(**made) as stream:
                streamed = stream.get_final_response()

            assert [item.type for item in whole.output] == kinds
            assert [item.type for item in streamed.output] == kinds
            assert streamed.output_text == whole.output_text == (SAYS if kinds[1] == "message" else "")
            assert streamed.output[0].summary[0].text == whole.output[0].summary[0].text
            assert streamed.usage.total_tokens > 0

    def test_sends_items_back(self, client: Any) -> None:
        tools: list[Any] = [{"type": "function", "name": "find", "parameters": SCHEMA}]
        made: dict[str, Any] = {"model": "gpt-5-mini", "tools": tools}
        first = client.responses.create(**made, input="find")
        call = first.output[-1]
        result = {"type": "function_call_output", "call_id": call.call_id, "output": "found"}
        items = [{"role": "user", "content": "find"}, *first.output, result]

        assert client.responses.create(**made, input=items).output_text == "You said: find"
        kept = client.responses.create(**made, previous_response_id=first.id, input=[result])
        assert kept.status == "completed"

    def test_names_errors(self, client: Any, sandbox: Sandbox) -> None:
        import openai

        def create(**more: Any) -> Any:
            return client.chat.completions.create(**{"model": "gpt-4o", "messages": HELLO, **more})

        with pytest.raises(openai.BadRequestError) as refused:
            create(messages=[{"role": "assistant", "content": None}])
        assert refused.value.param == "messages.[0].content"
        sandbox.script("openai", failure="quota")
        with pytest.raises(openai.RateLimitError) as limited:
            create()
        assert limited.value.code == "insufficient_quota"
        sandbox.script("openai", failure="server-error")
        with pytest.raises(openai.InternalServerError):
            create()
        sandbox.script("openai", failure="server-error", after=2)
        with pytest.raises(openai.APIError, match="had an error while processing"):
            list(create(stream=True))
        sandbox.script("openai", failure="rate-limit", after=2)
        *_, last = client.responses.create(model="gpt-4.1", input="Hello", stream=True)
        assert (last.type, last.code) == ("error", "rate_limit_exceeded")
        sandbox.script("openai", failure="server-error", after=2)
        *_, last = client.responses.create(model="gpt-4.1", input="Hello", stream=True)
        assert (last.type, last.response.error.code) == ("response.failed", "server_error")

    def test_of_azure_finds_its_deployments(self, sandbox: Sandbox) -> None:
        import openai

        azure = openai.AzureOpenAI(
            azure_endpoint=f"{sandbox.url}/azure", api_version="2024-12-01-preview", api_key="any", max_retries=0
        )
        assert azure.chat.completions.create(model="gpt-4o", messages=HELLO).choices[0].message.content == SAYS
        sandbox.script("azure", failure="content-filter")
        with pytest.raises(openai.BadRequestError) as filtered:
            azure.chat.completions.create(model="gpt-4o", messages=HELLO)
        assert filtered.value.code == "content_filter"


HOSTS = {
    "bedrock": "openai/v1",
    "cerebras": "v1",
    "deepseek": "",
    "fireworks": "inference/v1",
    "gemini": "v1beta/openai",
    "groq": "openai/v1",
    "huggingface": "v1",
    "minimax": "v1",
    "mistral": "v1",
    "moonshot": "v1",
    "ollama": "v1",
    "openrouter": "api/v1",
    "other": "any/base",
    "qwen": "compatible-mode/v1",
    "together": "v1",
    "vllm": "v1",
    "xai": "v1",
    "zhipu": "api/paas/v4",
} | {host.id: urlsplit(host.base_url).path.strip("/") for host in KNOWN_BY_FACTS}
"""Where OpenAI's client is pointed at to speak to a host, below its id."""


class TestHostsOfTheChatProtocol:
    @pytest.mark.parametrize("provider", HOSTS)
    def test_are_read_by_openais_client(self, sandbox: Sandbox, provider: str) -> None:
        import openai

        client = openai_client(sandbox, provider, HOSTS[provider])
        for messages in (HELLO, ASK):
            made = {"model": MODELS[provider], "messages": messages, "tools": CHAT_TOOLS}
            whole = client.chat.completions.create(**made).choices[0].message
            with client.chat.completions.stream(**made) as stream:
                streamed = stream.get_final_completion().choices[0].message
            assert streamed.content == whole.content == (SAYS if messages is HELLO else None)
            assert called(streamed) == called(whole) == ([] if messages is HELLO else ["find", "look"])
        sandbox.script(provider, failure="server-error")
        with pytest.raises(openai.InternalServerError):
            client.chat.completions.create(model=MODELS[provider], messages=HELLO)

    @pytest.mark.parametrize("provider", sorted(HOSTS.keys() - {"mistral", "cerebras", "xai", "vllm", "gemini"}))
    def test_break_off_so_that_openais_client_sees_it(self, sandbox: Sandbox, provider: str) -> None:
        # The client looks for an object under `error`. Mistral's, Cerebras', vLLM's and xAI's errors are flat, and
        # Gemini's stand in a list: it takes them for chunks, or fails on them.
        import openai

        client = openai_client(sandbox, provider, HOSTS[provider])
        sandbox.script(provider, failure="server-error", after=3)
        with pytest.raises(openai.APIError):
            list(client.chat.completions.create(model=MODELS[provider], messages=HELLO, stream=True))


class TestGemini:
    @pytest.fixture(params=["gemini", "vertex"])
    def client(self, sandbox: Sandbox, request: pytest.FixtureRequest) -> Any:
        from google import genai
        from google.genai import types
        from google.oauth2.credentials import Credentials

        options = types.HttpOptions(base_url=f"{sandbox.url}/{request.param}")
        if request.param == "gemini":
            return genai.Client(api_key="any", http_options=options)
        return genai.Client(
            vertexai=True, project="p", location="global", credentials=Credentials(token="any"), http_options=options
        )

    def test_reads_answers_whole_and_streamed(self, client: Any) -> None:
        from google.genai import types

        made = {
            "model": "gemini-3-flash-preview",
            "contents": "Hello over there",
            "config": types.GenerateContentConfig(thinking_config=types.ThinkingConfig(include_thoughts=True)),
        }
        whole = client.models.generate_content(**made)
        chunks = list(client.models.generate_content_stream(**made))

        assert whole.text == "".join(chunk.text or "" for chunk in chunks) == SAYS
        assert [part.text for part in whole.candidates[0].content.parts if part.thought] == [THOUGHT]
        assert chunks[-1].candidates[0].finish_reason == whole.candidates[0].finish_reason == "STOP"

    def test_reads_calls_and_sends_them_back(self, client: Any) -> None:
        from google.genai import types

        declared = [types.FunctionDeclaration(name=name, parameters_json_schema=SCHEMA) for name in ("find", "look")]
        config = types.GenerateContentConfig(
            tools=[types.Tool(function_declarations=declared)],
            automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        )
        asked = types.Content(role="user", parts=[types.Part(text="find and look")])
        first = client.models.generate_content(model="gemini-3-flash-preview", contents=[asked], config=config)

        assert [(call.name, call.args) for call in first.function_calls] == [("find", ARGUMENTS), ("look", ARGUMENTS)]
        results = [
            types.Part.from_function_response(name=call.name, response={"n": 1}) for call in first.function_calls
        ]
        turns = [asked, first.candidates[0].content, types.Content(role="user", parts=results)]
        second = client.models.generate_content(model="gemini-3-flash-preview", contents=turns, config=config)
        assert second.text == "You said: find and look"

    def test_names_errors(self, client: Any, sandbox: Sandbox) -> None:
        from google.genai import errors

        made = {"model": "gemini-2.5-flash", "contents": "Hello over there, and everywhere else around you"}
        provider = "vertex" if client.vertexai else "gemini"
        sandbox.script(provider, failure="quota")
        with pytest.raises(errors.ClientError) as limited:
            client.models.generate_content(**made)
        assert (limited.value.code, limited.value.status) == (429, "RESOURCE_EXHAUSTED")
        sandbox.script(provider, failure="overloaded", after=1)
        with pytest.raises(errors.ServerError) as overloaded:
            list(client.models.generate_content_stream(**made))
        assert overloaded.value.status == "UNAVAILABLE"


class TestMistral:
    @pytest.fixture
    def client(self, sandbox: Sandbox) -> Any:
        from mistralai.client import Mistral

        return Mistral(api_key="any", server_url=f"{sandbox.url}/mistral")

    def test_reads_text_and_thinking(self, client: Any) -> None:
        made = {"model": "magistral-medium-latest", "messages": HELLO}
        thought, text = client.chat.complete(**made).choices[0].message.content
        deltas = [event.data.choices[0].delta.content for event in client.chat.stream(**made)]

        assert (thought.thinking[0].text, text.text) == (THOUGHT, SAYS)
        assert "".join(delta for delta in deltas if isinstance(delta, str)) == SAYS
        pieces = [chunk.thinking[0].text for delta in deltas if isinstance(delta, list) for chunk in delta]
        assert "".join(pieces) == THOUGHT

    def test_reads_calls_and_sends_them_back(self, client: Any) -> None:
        made = {"model": "mistral-large-latest", "tools": CHAT_TOOLS}
        message = client.chat.complete(**made, messages=ASK).choices[0].message
        streamed = [event.data.choices[0].delta.tool_calls for event in client.chat.stream(**made, messages=ASK)]

        calls = message.tool_calls
        assert [(call.function.name, json.loads(call.function.arguments)) for call in calls] == [
            ("find", ARGUMENTS),
            ("look", ARGUMENTS),
        ]
        assert [call.function.name for delta in streamed if delta for call in delta] == ["find", "look"]
        results = [{"role": "tool", "tool_call_id": call.id, "content": "found"} for call in calls]
        again = client.chat.complete(**made, messages=[*ASK, message, *results])
        assert again.choices[0].finish_reason == "stop"

    def test_names_errors(self, client: Any, sandbox: Sandbox) -> None:
        from mistralai.client import errors

        made = {"model": "mistral-large-latest", "messages": HELLO}
        with pytest.raises(errors.SDKError, match="Expected last role User or Tool"):
            client.chat.complete(model="m", messages=[*HELLO, {"role": "assistant", "content": "Done"}])
        with pytest.raises(errors.HTTPValidationError) as unreadable:
            client.chat.complete(model="m", messages=[])
        assert unreadable.value.data.detail
        sandbox.script("mistral", failure="rate-limit")
        with pytest.raises(errors.SDKError) as limited:
            client.chat.complete(**made)
        assert limited.value.status_code == 429
        # The client knows no errors inside a stream: it fails on the missing keys of a chunk.
        sandbox.script("mistral", failure="server-error", after=2)
        with pytest.raises(errors.ResponseValidationError):
            list(client.chat.stream(**made))


# The library reads its own models in a way that pydantic is giving up.
@pytest.mark.filterwarnings("ignore:The `__fields__` attribute is deprecated")
class TestCohere:
    @pytest.fixture
    def client(self, sandbox: Sandbox) -> Any:
        import cohere

        return cohere.ClientV2(api_key="any", base_url=f"{sandbox.url}/cohere")

    def test_reads_text_and_thinking(self, client: Any) -> None:
        made = {"model": "command-a-reasoning-08-2025", "messages": HELLO}
        thought, text = client.chat(**made).message.content
        events = list(client.chat_stream(**made))

        assert (thought.thinking, text.text) == (THOUGHT, SAYS)
        deltas = [event.delta.message.content for event in events if event.type == "content-delta"]
        assert "".join(delta.thinking or "" for delta in deltas) == THOUGHT
        assert "".join(delta.text or "" for delta in deltas) == SAYS
        assert (events[-1].type, events[-1].delta.finish_reason) == ("message-end", "COMPLETE")

    def test_reads_calls_and_sends_them_back(self, client: Any) -> None:
        made: dict[str, Any] = {"model": "command-a-03-2025", "tools": CHAT_TOOLS}
        message = client.chat(**made, messages=ASK).message
        begun = [event for event in client.chat_stream(**made, messages=ASK) if event.type == "tool-call-start"]

        assert [call.function.name for call in message.tool_calls] == ["find", "look"]
        assert [event.delta.message.tool_calls.function.name for event in begun] == ["find", "look"]
        turn = {"role": "assistant", "tool_plan": message.tool_plan, "tool_calls": message.tool_calls}
        results = [{"role": "tool", "tool_call_id": call.id, "content": "found"} for call in message.tool_calls]
        assert client.chat(**made, messages=[*ASK, turn, *results]).finish_reason == "COMPLETE"

    def test_names_errors(self, client: Any, sandbox: Sandbox) -> None:
        import cohere

        made: dict[str, Any] = {"model": "command-a-03-2025", "messages": HELLO}
        turn = {"role": "assistant", "tool_calls": [{"id": "a", "type": "function", "function": {"name": "find"}}]}
        with pytest.raises(cohere.BadRequestError):
            client.chat(model="command-a-03-2025", messages=[*HELLO, turn, *HELLO])
        sandbox.script("cohere", failure="rate-limit")
        with pytest.raises(cohere.TooManyRequestsError):
            client.chat(**made, request_options={"max_retries": 0})
        # An error inside a stream is the last event, and the client leaves it to its caller.
        sandbox.script("cohere", failure="server-error", after=3)
        *_, last = client.chat_stream(**made)
        assert (last.type, last.delta.finish_reason) == ("message-end", "ERROR")


class TestBedrock:
    MODEL = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
    MESSAGES: list[Any] = [{"role": "user", "content": [{"text": "Hello over there"}]}]
    TOOLS: dict[str, Any] = {
        "tools": [{"toolSpec": {"name": name, "inputSchema": {"json": SCHEMA}}} for name in ("find", "look")]
    }
    THINKING: dict[str, Any] = {"thinking": {"type": "enabled", "budget_tokens": 1024}}

    @pytest.fixture
    def client(self, sandbox: Sandbox) -> Any:
        import botocore.session
        from botocore.config import Config

        session = botocore.session.Session()
        session.set_credentials("any", "any")
        return session.create_client(
            "bedrock-runtime",
            region_name="us-east-1",
            endpoint_url=f"{sandbox.url}/bedrock",
            config=Config(retries={"total_max_attempts": 1}),
        )

    def test_reads_answers_whole_and_streamed(self, client: Any) -> None:
        made = {
            "modelId": self.MODEL,
            "messages": self.MESSAGES,
            "additionalModelRequestFields": self.THINKING,
            "inferenceConfig": {"maxTokens": 2048},
        }
        content = client.converse(**made)["output"]["message"]["content"]
        events = list(client.converse_stream(**made)["stream"])

        assert content[0]["reasoningContent"]["reasoningText"]["text"] == THOUGHT
        assert content[1]["text"] == SAYS
        deltas = [event["contentBlockDelta"]["delta"] for event in events if "contentBlockDelta" in event]
        assert "".join(delta.get("text", "") for delta in deltas) == SAYS
        assert "".join(delta.get("reasoningContent", {}).get("text", "") for delta in deltas) == THOUGHT
        assert [*events[-2]["messageStop"].values(), *events[-1]] == ["end_turn", "metadata"]

    def test_reads_calls_and_sends_them_back(self, client: Any) -> None:
        asked = {"role": "user", "content": [{"text": "find and look"}]}
        made = {"modelId": self.MODEL, "toolConfig": self.TOOLS}
        message = client.converse(**made, messages=[asked])["output"]["message"]

        uses = [block["toolUse"] for block in message["content"] if "toolUse" in block]
        assert [(use["name"], use["input"]) for use in uses] == [("find", ARGUMENTS), ("look", ARGUMENTS)]
        results = [
            {"toolResult": {"toolUseId": use["toolUseId"], "content": [{"text": "found"}], "status": "success"}}
            for use in uses
        ]
        turns = [asked, message, {"role": "user", "content": results}]
        assert client.converse(**made, messages=turns)["stopReason"] == "end_turn"

    def test_invokes_claude(self, client: Any) -> None:
        body = json.dumps({"anthropic_version": "bedrock-2023-05-31", "max_tokens": 100, "messages": HELLO})
        whole = json.loads(client.invoke_model(modelId=self.MODEL, body=body)["body"].read())
        streamed = client.invoke_model_with_response_stream(modelId=self.MODEL, body=body)["body"]
        events = [json.loads(event["chunk"]["bytes"]) for event in streamed]

        assert whole["content"][0]["text"] == SAYS
        assert (events[0]["type"], events[-1]["type"]) == ("message_start", "message_stop")

    def test_names_errors(self, client: Any, sandbox: Sandbox) -> None:
        from botocore.exceptions import ClientError, EventStreamError

        made = {"modelId": self.MODEL, "messages": self.MESSAGES}
        with pytest.raises(ClientError, match="toolConfig field must be defined") as refused:
            use = {"toolUse": {"toolUseId": "a", "name": "find", "input": {}}}
            result = {"toolResult": {"toolUseId": "a", "content": [{"text": "found"}]}}
            turns = [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
            client.converse(modelId=self.MODEL, messages=[*self.MESSAGES, *turns])
        assert refused.value.response["Error"]["Code"] == "ValidationException"
        sandbox.script("bedrock", failure="rate-limit")
        with pytest.raises(client.exceptions.ThrottlingException):
            client.converse(**made)
        sandbox.script("bedrock", failure="overloaded", after=2)
        with pytest.raises(EventStreamError, match="serviceUnavailableException"):
            list(client.converse_stream(**made)["stream"])


def openai_client(sandbox: Sandbox, provider: str, base: str = "v1") -> Any:
    import openai

    return openai.OpenAI(base_url=f"{sandbox.url}/{provider}/{base}", api_key="any", max_retries=0)


def called(message: Any) -> list[str]:
    """The names of the calls of a completion; each has the arguments asked for."""
    calls = message.tool_calls or []
    assert all(json.loads(call.function.arguments) == ARGUMENTS for call in calls)
    return [call.function.name for call in calls]
