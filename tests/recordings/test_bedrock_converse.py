"""Recorded traffic of the Converse protocol; what Bedrock answered in other protocols is tested with those."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from memory.messages.convert import to_prompt
from memory.messages.from_prompt import from_prompt
from memory.messages.prompt import Part, Prompt, Reasoning, Text, ToolCall
from memory.messages.stored import clean_content, read_content
from memory.providers import bedrock_converse
from memory.providers.wire import Finished, Imported, ReasoningDelta, Reply, TextDelta, ToolInputDelta
from tests.providers.frames import stream
from tests.recordings.compare_bedrock_converse import differences
from tests.recordings.replies import followers, missing

# Fewer than these would mean that the test looks past the traffic.
LEAST = {"requests": 118, "replies": 121, "streams": 14, "raw": 5, "errors": 6, "continued": 35}

NO_USAGE = {
    # These hand-made streams end with the stop reason.
    "ai-amazon-bedrock.amazon-bedrock-json-tool.1-stream-d3ee7.1",
    "ai-amazon-bedrock.amazon-bedrock-json-tool.2-stream-699d0.1",
    "ai-amazon-bedrock.amazon-bedrock-json-tool.3-stream-2d738.1",
    "ai-amazon-bedrock.amazon-bedrock-json-with-tool.1-stream-fa479.1",
}
REWRITTEN = {
    # The source wrote a dash of the answer as two hyphens, and left it in the next request: the text is looked for so.
    "bedrock.bedrock-model-thinking-part-anthropic-legacy-f0cc3.2": ("--", "-"),
}
"""Next requests whose recording differs from the answer's in one character, and how."""


def exchanges(folder: Path) -> Iterator[dict[str, Any]]:
    for line in (folder / "bedrock.jsonl").read_bytes().splitlines():
        exchange: dict[str, Any] = msgspec.json.decode(line)
        if exchange["protocol"] == bedrock_converse.PROTOCOL:
            yield exchange


def requests(folder: Path) -> Iterator[tuple[dict[str, Any], Imported]]:
    """All requests, refused ones too: nothing of them may be lost either. The model stands in their path."""
    for exchange in exchanges(folder):
        if exchange["request"]:
            imported = bedrock_converse.decode_request(exchange["request"], provider="bedrock")
            yield exchange, Imported(imported.prompt, replace(imported.settings, model_id=exchange["model"]))


def encoded_again(imported: Imported, prompt: Prompt) -> dict[str, Any]:
    encoded = bedrock_converse.encode_request(prompt, imported.settings, provider="bedrock")
    body: dict[str, Any] = msgspec.json.decode(encoded.body)
    return body


def through_the_store(prompt: Prompt) -> Prompt:
    """The prompt that its own stored texts make; system messages are not stored, they come from elsewhere."""
    stored = [
        {**message, "content": read_content(clean_content(message["content"])[0])} for message in from_prompt(prompt)
    ]
    system = tuple(message for message in prompt.messages if message.role == "system")
    return Prompt(system + to_prompt(stored).messages)


def raw_stream(exchange: dict[str, Any]) -> bytes:
    """The bytes as recorded, else frames round the recorded events."""
    recorded = exchange.get("eventstream_base64")
    return base64.b64decode(recorded) if recorded else stream(exchange["events"])


def streamed(raw: bytes, size: int = 4096) -> list[Any]:
    pieces = (raw[start : start + size] for start in range(0, len(raw), size))
    return list(bedrock_converse.decode_stream(pieces, provider="bedrock"))


def streams(folder: Path) -> Iterator[tuple[dict[str, Any], bytes]]:
    return ((exchange, raw_stream(exchange)) for exchange in exchanges(folder) if exchange.get("events"))


def replies(folder: Path) -> Iterator[tuple[dict[str, Any], Reply]]:
    for exchange in exchanges(folder):
        if exchange.get("events"):
            yield exchange, streamed(raw_stream(exchange))[-1].reply
        elif exchange["status"] == 200:
            yield exchange, bedrock_converse.decode_reply(exchange["response"], provider="bedrock")


class TestRequests:
    def test_come_back_with_their_meaning(self, recordings_dir: Path) -> None:
        changed = {}
        for exchange, imported in requests(recordings_dir):
            changed[exchange["id"]] = differences(exchange["request"], encoded_again(imported, imported.prompt))
        assert {key: found for key, found in changed.items() if found} == {}
        assert len(changed) >= LEAST["requests"]

    def test_keep_it_when_stored_in_between(self, recordings_dir: Path) -> None:
        changed = {}
        for exchange, imported in requests(recordings_dir):
            again = encoded_again(imported, through_the_store(imported.prompt))
            changed[exchange["id"]] = differences(exchange["request"], again, was_stored=True)
        assert {key: found for key, found in changed.items() if found} == {}

    def test_have_a_place_for_every_part(self, recordings_dir: Path) -> None:
        for exchange, imported in requests(recordings_dir):
            encoded = bedrock_converse.encode_request(imported.prompt, imported.settings, provider="bedrock")
            for i, message in enumerate(imported.prompt.messages):
                for j in range(-1, len(message.parts)):
                    assert (i, j) in encoded.places, (exchange["id"], i, j)


class TestAnswers:
    def test_are_read(self, recordings_dir: Path) -> None:
        count = 0
        for exchange, reply in replies(recordings_dir):
            assert reply.parts, exchange["id"]
            assert reply.finish_reason not in ("other", "error"), exchange["id"]
            assert bool(reply.usage.output_tokens) == (exchange["id"] not in NO_USAGE), exchange["id"]
            count += 1
        assert count >= LEAST["replies"] + LEAST["streams"]

    def test_go_back_block_by_block(self, recordings_dir: Path) -> None:
        changed = {}
        for exchange in exchanges(recordings_dir):
            if exchange["status"] == 200 and exchange["response"]:
                message = exchange["response"]["output"]["message"]
                # What some hand-made fixtures say once more: the kind of a block beside the block.
                content = [{key: block[key] for key in block if key != "type"} for block in message["content"]]
                for block in content:
                    if block.get("toolUse", {}).get("type") == "tool_use":
                        block["toolUse"] = {k: v for k, v in block["toolUse"].items() if k != "type"}
                sent = {"messages": [{"role": "assistant", "content": content}]}
                reply = bedrock_converse.decode_reply(exchange["response"], provider="bedrock")
                turn = bedrock_converse.decode_request(sent, provider="bedrock").prompt.messages[0]
                assert turn.parts == reply.parts, exchange["id"]
                imported = Imported(Prompt((turn,)), bedrock_converse.Settings("m"))
                changed[exchange["id"]] = differences(sent, encoded_again(imported, imported.prompt))
        assert {key: found for key, found in changed.items() if found} == {}
        assert len(changed) >= LEAST["replies"]

    def test_read_alike_in_any_pieces(self, recordings_dir: Path) -> None:
        count = raw_count = 0
        for exchange, raw in streams(recordings_dir):
            chunks = streamed(raw)
            for size in (1, 7):
                assert streamed(raw, size) == chunks, (exchange["id"], size)
            assert isinstance(chunks[-1], Finished)
            count += 1
            raw_count += bool(exchange.get("eventstream_base64"))
        assert count >= LEAST["streams"]
        assert raw_count >= LEAST["raw"]

    def test_say_in_bytes_what_their_events_say(self, recordings_dir: Path) -> None:
        for exchange, raw in streams(recordings_dir):
            if exchange.get("eventstream_base64"):
                assert streamed(raw) == streamed(stream(exchange["events"])), exchange["id"]

    def test_say_in_fragments_what_they_say_as_a_whole(self, recordings_dir: Path) -> None:
        for exchange, raw in streams(recordings_dir):
            *chunks, last = streamed(raw)
            parts = last.reply.parts
            said = [chunk.text for chunk in chunks if isinstance(chunk, TextDelta)]
            thought = [chunk.text for chunk in chunks if isinstance(chunk, ReasoningDelta)]
            assert "".join(said) == "".join(part.text for part in parts if isinstance(part, Text)), exchange["id"]
            assert "".join(thought) == "".join(part.text for part in parts if isinstance(part, Reasoning))
            for part in parts:
                if isinstance(part, ToolCall):
                    mine = [c.text for c in chunks if isinstance(c, ToolInputDelta) and c.call_id == part.id]
                    assert msgspec.json.decode("".join(mine) or "{}") == part.input, exchange["id"]

    def test_are_found_in_the_next_request(self, recordings_dir: Path) -> None:
        next_requests = followers(recordings_dir)
        lost = {}
        count = 0
        for exchange, reply in replies(recordings_dir):
            for follower in next_requests.get(exchange["id"], ()):
                found = missing(reply, plainly_named(follower["request"]))
                if change := REWRITTEN.get(follower["id"]):
                    assert [kind for kind, _ in found] == ["text"]
                    reply = replace(reply, parts=tuple(rewritten(part, *change) for part in reply.parts))
                    found = missing(reply, plainly_named(follower["request"]))
                lost[follower["id"]] = found
                count += 1
        assert {key: found for key, found in lost.items() if found} == {}
        assert count >= LEAST["continued"]

    def test_that_refuse_are_classified(self, recordings_dir: Path) -> None:
        count = 0
        for exchange in exchanges(recordings_dir):
            if exchange["status"] >= 400:
                text = msgspec.json.encode(exchange["response"]).decode()
                error = bedrock_converse.decode_error(exchange["status"], exchange["headers"], text, provider="bedrock")
                assert error.message == exchange["response"]["message"]
                assert (error.error_class, error.is_retryable) == ("bad-request", False)
                count += 1
        assert count >= LEAST["errors"]


def rewritten(part: Part, old: str, new: str) -> Part:
    return replace(part, text=part.text.replace(old, new)) if isinstance(part, Text) else part


def plainly_named(value: Any) -> Any:
    """The request with the ids of its calls under the name that other protocols have for them."""
    if isinstance(value, dict):
        return {"id" if key == "toolUseId" else key: plainly_named(item) for key, item in value.items()}
    return [plainly_named(item) for item in value] if isinstance(value, list) else value
