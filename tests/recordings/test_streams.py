"""Recorded streams of both older protocols: one result whatever the chunking, the one that others read too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import msgspec
import openai
import pytest

import memory.sandbox
from memory.errors import ProviderError
from memory.messages.prompt import Reasoning, Text, ToolCall, holds_raw_block
from memory.providers import wire_module
from memory.providers.wire import Chunk, Finished, ReasoningDelta, Reply, TextDelta, ToolInputDelta
from memory.sandbox import Sandbox
from tests.recordings.replies import followers, missing

PROTOCOLS = ("anthropic-messages", "openai-chat")
PROVIDERS = {"openai-chat": "openai"}
SIZES = (1, 7, 4096)
# Fewer than these in the usual folder would mean that the test looks past the traffic.
STREAMS = {"anthropic-messages": 44, "openai-chat": 31}
FAILED = 2
FOLLOWED = 5

# A failure inside the stream, which came with status 200: its class and message.
FAILURES = {
    "groq.tool-use-failed-error-streaming-bc644.1": ("bad-request", "Tool call validation failed"),
    # The host says why it stops behind a finish reason.
    "openrouter.openrouter-stream-error-b144f.1": ("bad-request", "Token limit reached"),
}

# What the vendors' own clients do not read, though the stream is sound.
UNREAD = {
    # OpenAI's client refuses an answer that the length limit ended.
    "ai-deepseek.deepseek-text-stream-bbc38.1",
    # OpenAI's client wants an index on everything in a list: Mistral's content parts and calls, OpenRouter's citations.
    "ai-mistral.mistral-reasoning-stream-67c17.1",
    "ai-mistral.mistral-tool-call-stream-629ae.1",
    "openrouter.openrouter-web-search-annotations-stream-3c807.1",
    # OpenAI's client wants `object` in every chunk.
    "ai-moonshotai.moonshotai-stream-stream-57f75.1",
}

_START = "event: message_start"
_OUTPUT_TOKENS = re.compile(r'"(?:output|completion)_tokens":\s*(\d+)')


def streams(folder: Path) -> Iterator[tuple[dict[str, Any], str, str]]:
    """Exchange, provider and text of each stream; a recording may hold the answers of several calls, one after another.

    The second library kept all answers of an agent's turn in one file (four files); each is a stream of its own.
    """
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_bytes().splitlines():
            exchange: dict[str, Any] = msgspec.json.decode(line)
            if exchange["protocol"] not in PROTOCOLS or not exchange["sse"]:
                continue
            head, *rest = exchange["sse"].split(_START)
            for text in [_START + one for one in rest] or [head]:
                yield exchange, PROVIDERS.get(path.stem, path.stem), text


def decoded(exchange: dict[str, Any], provider: str, text: str, size: int) -> list[Chunk]:
    raw = text.encode()
    pieces = (raw[at : at + size] for at in range(0, len(raw), size))
    return list(wire_module(exchange["protocol"]).decode_stream(pieces, provider=provider))


@pytest.fixture
def is_usual_folder(pytestconfig: pytest.Config) -> bool:
    return pytestconfig.getoption("--recordings") is None


def whole(folder: Path) -> Iterator[tuple[dict[str, Any], str, str, list[Chunk], Reply]]:
    for exchange, provider, text in streams(folder):
        if "error-in-stream" not in exchange["tags"]:
            chunks = decoded(exchange, provider, text, len(text.encode()))
            last = chunks[-1]
            assert isinstance(last, Finished)
            yield exchange, provider, text, chunks, last.reply


class TestStreams:
    def test_come_to_one_result_in_pieces_of_any_size(self, recordings_dir: Path, is_usual_folder: bool) -> None:
        counts = dict.fromkeys(PROTOCOLS, 0)
        for exchange, provider, text, chunks, _ in whole(recordings_dir):
            for size in SIZES:
                assert decoded(exchange, provider, text, size) == chunks, (exchange["id"], size)
            counts[exchange["protocol"]] += 1
        assert not is_usual_folder or counts == STREAMS

    def test_end_with_what_a_whole_answer_has(self, recordings_dir: Path) -> None:
        for exchange, _, text, _, reply in whole(recordings_dir):
            # A model may decline before it says a word.
            assert reply.parts or reply.finish_reason == "refusal", exchange["id"]
            # A host that gives no reason is tagged so.
            assert (reply.finish_reason == "other") == ("no-finish-reason" in exchange["tags"]), exchange["id"]
            counted = {int(number) for number in _OUTPUT_TOKENS.findall(text)}
            assert reply.usage.output_tokens in counted, exchange["id"]

    def test_deltas_add_up_to_the_reply(self, recordings_dir: Path) -> None:
        for exchange, _, _, chunks, reply in whole(recordings_dir):
            said = "".join(one.text for one in chunks if isinstance(one, TextDelta))
            # What others may read of a block we don't know, such as a compaction, is not said to the user.
            texts = [part.text for part in reply.parts if isinstance(part, Text) and not holds_raw_block(part)]
            assert said == "".join(texts), exchange["id"]
            thought = "".join(one.text for one in chunks if isinstance(one, ReasoningDelta))
            assert thought == "".join(part.text for part in reply.parts if isinstance(part, Reasoning)), exchange["id"]
            arguments: dict[tuple[str, str], str] = {}
            for one in chunks:
                if isinstance(one, ToolInputDelta):
                    key = (one.call_id, one.name)
                    arguments[key] = arguments.get(key, "") + one.text
            made = {(part.id, part.name): part.input for part in reply.parts if isinstance(part, ToolCall)}
            read = {key: msgspec.json.decode(text) if text else {} for key, text in arguments.items()}
            assert read == made, exchange["id"]

    def test_hold_what_their_client_read(self, recordings_dir: Path, is_usual_folder: bool) -> None:
        after = followers(recordings_dir)
        count = 0
        for exchange, _, _, _, reply in whole(recordings_dir):
            for follower in after.get(exchange["id"], ()):
                assert missing(reply, follower["request"]) == [], (exchange["id"], follower["id"])
                count += 1
        assert not is_usual_folder or count == FOLLOWED

    def test_that_failed_are_classified_and_keep_what_came(self, recordings_dir: Path, is_usual_folder: bool) -> None:
        count = 0
        for exchange, provider, text in streams(recordings_dir):
            if "error-in-stream" not in exchange["tags"]:
                continue
            error_class, message = FAILURES.get(exchange["id"], ("", ""))
            partials = []
            for size in SIZES:
                with pytest.raises(ProviderError, match=message) as caught:
                    decoded(exchange, provider, text, size)
                assert caught.value.error_class == error_class or exchange["id"] not in FAILURES
                partials.append(caught.value.partial)
            assert partials == partials[:1] * len(partials)
            assert partials[0] or exchange["id"] not in FAILURES
            count += 1
        assert not is_usual_folder or count == FAILED

    def test_that_are_cut_in_half_are_errors(self, recordings_dir: Path) -> None:
        for exchange, provider, text in streams(recordings_dir):
            half = text[: len(text) // 2]
            if exchange["protocol"] == "openai-chat" and '"finish_reason":"' in half.replace(": ", ":"):
                continue  # complete, but for its usage
            with pytest.raises(ProviderError) as caught:
                decoded(exchange, provider, half, 4096)
            assert caught.value.error_class in ("transient", "bad-request"), exchange["id"]


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    started = memory.sandbox.start()
    yield started
    started.stop()


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
def test_the_vendors_own_clients_read_the_same(recordings_dir: Path, sandbox: Sandbox) -> None:
    asked: Any = [{"role": "user", "content": "a"}]
    with (
        anthropic.Anthropic(base_url=f"{sandbox.url}/anthropic", api_key="any", max_retries=0) as claude,
        openai.OpenAI(base_url=f"{sandbox.url}/openai/v1", api_key="any", max_retries=0) as gpt,
    ):
        for exchange, provider, text, _, reply in whole(recordings_dir):
            if exchange["id"] in UNREAD:
                continue
            if exchange["protocol"] == "anthropic-messages":
                sandbox.script("anthropic", body=text)
                with claude.beta.messages.stream(model="m", max_tokens=5, messages=asked) as messages:
                    body = messages.get_final_message().to_dict()
            else:
                sandbox.script("openai", body=text)
                with gpt.chat.completions.stream(model="m", messages=asked) as chunks:
                    body = chunks.get_final_completion().to_dict()
            theirs = wire_module(exchange["protocol"]).decode_reply(without_nulls(body), provider=provider)
            ours = without_nulls(msgspec.to_builtins(reply.parts))
            assert ours == without_nulls(msgspec.to_builtins(theirs.parts)), exchange["id"]
            assert (reply.response_id, reply.model_id) == (theirs.response_id, theirs.model_id), exchange["id"]


def without_nulls(value: Any) -> Any:
    """The clients write null for what is absent."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list | tuple) else value
