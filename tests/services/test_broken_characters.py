"""Answers with half characters, NUL and bytes that are no UTF-8: the run goes on, or fails for its own reason."""

import json
from typing import Any

import httpx
import pytest

from memory.errors import RunFailed
from memory.models import Agent, Attempt, Message, Provider, Run
from memory.sandbox import Sandbox
from memory.services import agents, runs
from memory.services.runner import execute
from memory.services.runs import GenerateRequest
from tests.make import caller

MODELS = {
    ("anthropic", "anthropic-messages"): "claude-sonnet-4-5",
    ("openai", "openai-chat"): "gpt-4o",
    ("openai", "openai-responses"): "gpt-4.1",
    ("gemini", "gemini-contents"): "gemini-2.5-flash",
    ("bedrock", "bedrock-converse"): "amazon.nova-pro-v1:0",
    ("cohere", "cohere-v2"): "command-a-03-2025",
}
EACH = pytest.mark.parametrize(
    ("provider", "protocol", "model"), [(*pair, model) for pair, model in MODELS.items()], ids=[p for _, p in MODELS]
)
AGENT = {"id": "a", "name": "A", "input_processors": ["message-history"], "output_processors": ["message-history"]}

pytestmark = pytest.mark.django_db


@pytest.fixture
def sandbox(db: None, running_sandbox: Sandbox, settings: Any) -> Sandbox:
    running_sandbox.clear()
    settings.SANDBOX_URL = running_sandbox.url
    return running_sandbox


def agent_for(provider: str, protocol: str, model: str) -> str:
    Provider.objects.create(id=provider, protocol=protocol, base_url=f"sandbox:{provider}")
    return agents.create_agent(caller(), {**AGENT, "model": f"{provider}/{model}", "model_max_retries": 0}).id


def ask(agent_id: str, text: str, *, is_streamed: bool = False) -> str:
    """A turn's answer."""
    request = GenerateRequest(messages=text, thread_id="t")
    run = runs.open_run(caller(), Agent.objects.get(id=agent_id), request, is_streamed=is_streamed)
    execute(run, wait=lambda seconds: False)
    return runs.result_of(run.id).text


def recorded(sandbox: Sandbox, provider: str) -> bytes:
    """What the sandbox answers to the request it has seen last."""
    seen = sandbox.requests(provider)[-1]
    headers = {name: value for name, value in seen["headers"].items() if name not in ("host", "content-length")}
    headers |= {"authorization": "Bearer x", "x-api-key": "x", "x-goog-api-key": "x"}
    return httpx.post(f"{sandbox.url}{seen['path']}", json=seen["body"], headers=headers).content


@EACH
def test_in_an_answer_are_mended(sandbox: Sandbox, provider: str, protocol: str, model: str) -> None:
    agent_id = agent_for(provider, protocol, model)
    ask(agent_id, "Hello MARK there")
    body = recorded(sandbox, provider).decode().replace("MARK", r"\ud83d \ud83d\ude00 \u0000")
    sandbox.script(provider, body=body)

    text = ask(agent_id, "Hello again")

    assert "\ufffd \U0001f600" in text
    row = Message.objects.filter(thread_id="t", role="assistant").latest("seq")
    assert "\ufffd \U0001f600" in row.content and "\x00" not in json.loads(row.content)["parts"][0]["text"]


@EACH
def test_in_an_error_do_not_hide_it(sandbox: Sandbox, provider: str, protocol: str, model: str) -> None:
    agent_id = agent_for(provider, protocol, model)
    body = r'{"message": "Too \ud83d much \u0000", "error": {"message": "Too \ud83d much \u0000", "code": 429}}'
    sandbox.script(provider, status=429, body=body)

    with pytest.raises(RunFailed):
        ask(agent_id, "Hello")

    run = Run.objects.get()
    assert (run.error_class, run.error_message) == ("rate-limit", "Too \ufffd much \ufffd")
    assert Attempt.objects.get().error_message == run.error_message


def chunk(text: str, finish: str = "null") -> str:
    choice = f'[{{"index":0,"delta":{{"content":"{text}"}},"finish_reason":{finish}}}]'
    return f'data: {{"id":"c","object":"chat.completion.chunk","model":"gpt-4o","choices":{choice}}}\n\n'


def test_in_a_stream_are_joined_across_events(sandbox: Sandbox) -> None:
    agent_id = agent_for("openai", "openai-chat", "gpt-4o")
    told = [chunk(r"a\ud83d"), ": still there\n\n", chunk(r"\ude00b"), chunk(r"\ud83d"), chunk("c", '"stop"')]
    sandbox.script("openai", body="".join(told) + "data: [DONE]\n\n")

    assert ask(agent_id, "Hello", is_streamed=True) == "a\U0001f600bc"

    said = [json.loads(data) for data in Run.objects.get().events.order_by("seq").values_list("data", flat=True)]
    assert "".join(event["text"] for event in said if set(event) == {"text"}) == "a\U0001f600bc"


def test_in_arguments_of_a_stream_are_mended(sandbox: Sandbox) -> None:
    agent_id = agent_for("anthropic", "anthropic-messages", "claude-sonnet-4-5")
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "m", "type": "message", "role": "assistant", "model": "claude", "content": [], "usage": usage}
    call = {"type": "tool_use", "id": "toolu_1", "name": "find", "input": {}}
    told: list[dict[str, Any]] = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": call},
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "input_json_delta", "partial_json": r'{"q":"\ud8'},
        },
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": '3d"}'}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": usage},
        {"type": "message_stop"},
    ]
    sandbox.script("anthropic", body="".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in told))

    ask(agent_id, "Hello", is_streamed=True)

    (part,) = json.loads(Message.objects.get(role="assistant").content)["parts"]
    assert part["toolInvocation"]["args"] == {"q": "\ufffd"}
