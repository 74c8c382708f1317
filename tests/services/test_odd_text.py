"""Answers with half characters and U+0000: read, streamed and stored as whole text."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from memory.models import Message
from memory.providers import wire_module
from memory.providers.wire import Finished, TextDelta
from memory.sandbox import Sandbox
from memory.services import agents
from memory.services.runs import GenerateRequest, generate
from tests.make import caller


def chunk(delta: str, reason: str = "null") -> str:
    choice = f'{{"index":0,"delta":{delta},"finish_reason":{reason}}}'
    return f'data: {{"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{choice}]}}\n\n'


CUT = (
    chunk(r'{"role":"assistant","content":"a\ud83d"}')
    + chunk(r'{"content":"\ude00b\u0000"}')
    + chunk("{}", '"stop"')
    + "data: [DONE]\n\n"
)


def chunks(body: str) -> list[Any]:
    return list(wire_module("openai-chat").decode_stream([body.encode()], provider="openai"))


def test_halves_in_two_events_are_one_character() -> None:
    *deltas, last = chunks(CUT)
    assert [delta.text for delta in deltas if isinstance(delta, TextDelta)] == ["a", "😀b\x00"]
    assert isinstance(last, Finished)
    assert [part.text for part in last.reply.parts] == ["a😀b\x00"]
    msgspec.json.encode([*deltas, last])


@pytest.mark.django_db(transaction=True)
def test_an_answer_is_stored_whole(sandbox: Sandbox) -> None:
    agent = {
        "id": "odd",
        "name": "Odd",
        "model": "openai/gpt-4o",
        "input_processors": ["message-history"],
        "output_processors": ["message-history"],
        "error_processors": [],
    }
    agent_id = agents.create_agent(caller(), agent).id
    said = r"a\ud83d\ude00b\u0000\ud83d"
    answer = {"id": "x", "object": "chat.completion", "created": 1, "model": "gpt-4o", "choices": []}
    message = f'{{"index":0,"finish_reason":"stop","message":{{"role":"assistant","content":"{said}"}}}}'
    whole = json.dumps(answer).replace("[]", f"[{message}]")
    sandbox.script("openai", body=whole, headers={"content-type": "application/json"})
    result = generate(caller(), agent_id, GenerateRequest(messages="hello", thread_id="t-odd"))
    assert (result.status, result.attempt_count) == ("succeeded", 1)
    row = Message.objects.get(thread_id="t-odd", role="assistant")
    assert msgspec.json.decode(row.content)["content"] == "a😀b\ufffd\ufffd"
    assert "U+0000" in row.reason
