"""Recorded histories to every provider: unchanged for who took them, and rewritten so that everybody else does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

import memory.sandbox
from memory.errors import EncodingError
from memory.messages.convert import to_prompt
from memory.messages.from_prompt import from_prompt
from memory.messages.names import ModelRef, provider_id
from memory.messages.prompt import Message, Prompt, Text, ToolCall
from memory.processors import Switches
from memory.processors.changes import Change
from memory.processors.compat.passes import CATALOGUE
from memory.processors.compat.passes.call import Call
from memory.processors.compat.processor import run_steps
from memory.profiles import profile_for
from memory.providers import wire_module
from memory.providers.wire import Settings
from tests.sandbox.conftest import HEADERS
from tests.sandbox.demo_threads import MODEL_TARGETS, TARGETS, Turn, request_to
from tests.sdk.differences import unfit

EVERY = 9
"""Which lines the default run takes."""
NAMED = {
    # A block of OpenRouter's own goes back to OpenRouter, whose upstream here is another one.
    ("openrouter", "openai-chat"): {"openrouter.openrouter-binary-content-video-public-api-c8f3c.1"},
}


class Accepted(msgspec.Struct):
    """A recorded request that was answered with 200, as its thread is stored."""

    id: str
    provider: str
    protocol: str
    model: str
    prompt: Prompt
    settings: Settings


@pytest.fixture(scope="module")
def accepted(recordings_dir: Path, request: pytest.FixtureRequest) -> list[Accepted]:
    found = list(_accepted(recordings_dir))
    return found if request.config.getoption("--all") else found[::EVERY]


def _accepted(folder: Path) -> Iterator[Accepted]:
    for file in sorted(folder.glob("*.jsonl")):
        for line in file.read_bytes().splitlines():
            exchange = msgspec.json.decode(line)
            if exchange["status"] != 200 or not exchange["request"]:
                continue
            provider, model = provider_id(exchange["provider"]), exchange["model"] or ""
            read = wire_module(exchange["protocol"]).decode_request(exchange["request"], provider=provider)
            stored = [{"id": f"m{i}", **message} for i, message in enumerate(from_prompt(read.prompt))]
            for message in stored:
                if message["role"] == "assistant":
                    stamp = {"provider": provider, "protocol": exchange["protocol"], "modelId": model}
                    message["content"]["metadata"] = stamp
            system = tuple(message for message in read.prompt.messages if message.role == "system")
            prompt = Prompt(system + to_prompt(stored).messages)
            yield Accepted(exchange["id"], provider, exchange["protocol"], model, prompt, read.settings)


def rewritten(one: Accepted, model: ModelRef, protocol: str) -> tuple[Prompt, list[Change]]:
    names = [tool.name for tool in one.settings.tools if tool.raw is None]
    declared = frozenset(tool.name for tool in one.settings.tools)
    call = Call(model.model_id, one.settings.extra, declared)
    profile = profile_for(model, protocol)
    prompt, changes, _, _ = run_steps(CATALOGUE, one.prompt, profile, Switches(), tool_names=names, call=call)
    return prompt, changes


def test_no_rule_fires_for_who_took_it(accepted: list[Accepted]) -> None:
    fired = {}
    for one in accepted:
        prompt, changes = rewritten(one, ModelRef(one.provider, one.model), one.protocol)
        if changes or prompt is not one.prompt:
            fired[one.id] = [change.rule for change in changes]
    assert fired == {}
    assert accepted


@pytest.mark.parametrize(("provider", "protocol", "model_id"), MODEL_TARGETS)
def test_everybody_takes_it_rewritten(accepted: list[Accepted], provider: str, protocol: str, model_id: str) -> None:
    """The pretend provider answers, and the vendor's own types know all that is in the request."""
    refused: dict[str, Any] = {}
    sandbox = memory.sandbox.start()
    try:
        with httpx.Client(base_url=sandbox.url, timeout=10, trust_env=False, verify=False) as client:
            for one in accepted:
                asked = Prompt((*one.prompt.messages, Message("user", (Text("Go on."),))))
                turn = Turn(one.id, asked, Settings(model_id=one.model, tools=one.settings.tools))
                try:
                    encoded = request_to(provider, protocol, turn, model_id=model_id)
                except EncodingError as error:
                    refused[one.id] = str(error)
                    continue
                path = f"/{provider}/v1{encoded.path}"
                response = client.post(path, content=encoded.body, headers=HEADERS[provider])
                if response.status_code != 200:
                    refused[one.id] = response.text
                if faults := unfit(provider, protocol, msgspec.json.decode(encoded.body)):
                    refused.setdefault(one.id, faults)
    finally:
        sandbox.stop()
    assert {id_: text for id_, text in refused.items() if id_ not in NAMED.get((provider, protocol), ())} == {}


@pytest.mark.parametrize(("provider", "protocol"), TARGETS)
def test_every_call_reaches_everybody(accepted: list[Accepted], provider: str, protocol: str) -> None:
    """What a client ran is sent with its result. What a provider ran itself may be told as text."""
    lost = {}
    for one in accepted:
        prompt, _ = rewritten(one, ModelRef(provider, "any"), protocol)
        before, after = _client_calls(one.prompt), _client_calls(prompt)
        if before != after:
            lost[one.id] = (before, after)
    assert lost == {}


def _client_calls(prompt: Prompt) -> int:
    parts = [part for message in prompt.messages for part in message.parts]
    return sum(isinstance(part, ToolCall) and not part.provider_executed for part in parts)
