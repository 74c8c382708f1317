"""Recorded traffic of Cohere's chat protocol."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from memory.messages.convert import to_prompt
from memory.messages.from_prompt import from_prompt
from memory.messages.prompt import Prompt, Reasoning, Text
from memory.messages.stored import clean_content, read_content
from memory.providers import cohere_v2
from memory.providers.wire import Finished, ReasoningDelta, Reply, TextDelta
from tests.recordings.compare_cohere_v2 import differences
from tests.recordings.replies import followers, missing

# Fewer than these would mean that the test looks past the traffic.
LEAST = {"requests": 5, "replies": 9, "streams": 3, "continued": 1}


def exchanges(folder: Path) -> Iterator[dict[str, Any]]:
    for line in (folder / "cohere.jsonl").read_bytes().splitlines():
        exchange: dict[str, Any] = msgspec.json.decode(line)
        if exchange["protocol"] == cohere_v2.PROTOCOL:
            yield exchange


def streamed(exchange: dict[str, Any], size: int = 4096) -> list[Any]:
    raw = exchange["sse"].encode()
    pieces = (raw[start : start + size] for start in range(0, len(raw), size))
    return list(cohere_v2.decode_stream(pieces, provider="cohere"))


def reply_of(exchange: dict[str, Any]) -> Reply:
    if exchange["sse"]:
        reply: Reply = streamed(exchange)[-1].reply
        return reply
    return cohere_v2.decode_reply(exchange["response"], provider="cohere")


def through_the_store(prompt: Prompt) -> Prompt:
    """The prompt that its own stored texts make; system messages are not stored, they come from elsewhere."""
    stored = [
        {**message, "content": read_content(clean_content(message["content"])[0])} for message in from_prompt(prompt)
    ]
    system = tuple(message for message in prompt.messages if message.role == "system")
    return Prompt(system + to_prompt(stored).messages)


class TestRequests:
    def test_come_back_with_their_meaning_stored_or_not(self, recordings_dir: Path) -> None:
        count = 0
        for exchange in exchanges(recordings_dir):
            if not exchange["request"]:
                continue
            imported = cohere_v2.decode_request(exchange["request"], provider="cohere")
            for prompt in (imported.prompt, through_the_store(imported.prompt)):
                encoded = cohere_v2.encode_request(prompt, imported.settings, provider="cohere")
                assert differences(exchange["request"], msgspec.json.decode(encoded.body)) == [], exchange["id"]
                for i, message in enumerate(prompt.messages):
                    assert all((i, j) in encoded.places for j in range(-1, len(message.parts))), exchange["id"]
            count += 1
        assert count >= LEAST["requests"]


class TestAnswers:
    def test_are_read(self, recordings_dir: Path) -> None:
        count = 0
        for exchange in exchanges(recordings_dir):
            reply = reply_of(exchange)
            assert reply.parts, exchange["id"]
            assert reply.finish_reason in ("stop", "tool-calls"), exchange["id"]
            assert reply.usage.input_tokens and reply.usage.output_tokens and reply.response_id, exchange["id"]
            count += 1
        assert count >= LEAST["replies"] + LEAST["streams"]

    def test_read_alike_in_any_pieces(self, recordings_dir: Path) -> None:
        count = 0
        for exchange in exchanges(recordings_dir):
            if exchange["sse"]:
                *chunks, last = streamed(exchange)
                for size in (1, 7):
                    assert streamed(exchange, size) == [*chunks, last], (exchange["id"], size)
                assert isinstance(last, Finished)
                parts = last.reply.parts
                said = [chunk.text for chunk in chunks if isinstance(chunk, TextDelta)]
                thought = [chunk.text for chunk in chunks if isinstance(chunk, ReasoningDelta)]
                assert "".join(said) == "".join(part.text for part in parts if isinstance(part, Text))
                assert "".join(thought) == "".join(part.text for part in parts if isinstance(part, Reasoning))
                count += 1
        assert count >= LEAST["streams"]

    def test_are_found_in_the_next_request(self, recordings_dir: Path) -> None:
        next_requests = followers(recordings_dir)
        count = 0
        for exchange in exchanges(recordings_dir):
            for follower in next_requests.get(exchange["id"], ()):
                assert missing(reply_of(exchange), follower["request"]) == [], follower["id"]
                count += 1
        assert count >= LEAST["continued"]
