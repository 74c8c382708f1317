"""Recorded traffic of the Gemini API and of Vertex: requests come back, answers and streams are read."""

from __future__ import annotations

import base64
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from memory.messages.prompt import File, Prompt, Reasoning, Text, ToolCall, ToolResult
from memory.providers.gemini_contents import (
    PROTOCOL,
    decode_error,
    decode_reply,
    decode_request,
    decode_stream,
    encode_request,
)
from memory.providers.wire import Chunk, Finished, Reply, ToolInputDelta
from tests.providers.payloads import body_of
from tests.recordings.compare_gemini import differences
from tests.recordings.test_roundtrip import through_the_store

FILES = ("gemini", "vertex")
# Fewer than these would mean that the tests look past the traffic.
ACCEPTED = {"gemini": 191, "vertex": 71}
ANSWERED = {"gemini": 182, "vertex": 70}
STREAMED = {"gemini": 13, "vertex": 1}
REFUSED = {"gemini": 1, "vertex": 1}
CONTINUED = {"gemini": 84, "vertex": 40}


def exchanges(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    for line in (folder / f"{name}.jsonl").read_bytes().splitlines():
        exchange: dict[str, Any] = msgspec.json.decode(line)
        if exchange["protocol"] == PROTOCOL:
            yield exchange


def streamed(exchange: Mapping[str, Any], size: int, name: str) -> list[Chunk]:
    raw = exchange["sse"].encode()
    return list(decode_stream((raw[at : at + size] for at in range(0, len(raw), size)), provider=name))


def answer(exchange: Mapping[str, Any], name: str) -> Reply | None:
    if exchange["status"] != 200:
        return None
    if exchange["sse"]:
        last = streamed(exchange, 4096, name)[-1]
        assert isinstance(last, Finished)
        return last.reply
    return decode_reply(exchange["response"], provider=name) if exchange["response"] else None


ANSWERED_TOGETHER = "tool-search.cross-provider-capability-replay-"
"""Two model contents in a row with one content of both results: once stored, each is followed by its own result."""


@pytest.mark.parametrize("name", FILES)
class TestAcceptedRequests:
    @pytest.mark.parametrize("is_stored", [False, True])
    def test_come_back_with_their_meaning(self, recordings_dir: Path, name: str, is_stored: bool) -> None:
        count, changed = 0, {}
        for exchange in exchanges(recordings_dir, name):
            if exchange["status"] != 200 or not exchange["request"]:
                continue
            count += 1
            imported = decode_request(exchange["request"], provider=name)
            prompt: Prompt = through_the_store(imported.prompt) if is_stored else imported.prompt
            settings = replace(imported.settings, model_id=exchange["model"])
            encoded = encode_request(prompt, settings, provider=name)
            assert exchange["path"].partition("/models/")[2].partition(":")[0] in encoded.path
            found = differences(exchange["request"], body_of(encoded), was_stored=is_stored)
            if found and not (is_stored and exchange["id"].startswith(ANSWERED_TOGETHER)):
                changed[exchange["id"]] = found
        assert changed == {}
        assert count >= ACCEPTED[name]


@pytest.mark.parametrize("name", FILES)
class TestAnswers:
    def test_are_read(self, recordings_dir: Path, name: str) -> None:
        count = 0
        for exchange in exchanges(recordings_dir, name):
            if exchange["status"] != 200 or not exchange["response"]:
                continue
            count += 1
            reply = decode_reply(exchange["response"], provider=name)
            # Blocked by the caller's own filter: nothing is left of the answer.
            is_blocked = exchange["response"]["candidates"][0]["finishReason"] == "MODEL_ARMOR"
            assert bool(reply.parts) != is_blocked, exchange["id"]
            assert reply.finish_reason in ("stop", "length", "tool-calls", "content-filter"), exchange["id"]
            usage = exchange["response"]["usageMetadata"]
            assert reply.usage.input_tokens + reply.usage.output_tokens == usage["totalTokenCount"], exchange["id"]
        assert count >= ANSWERED[name]

    def test_in_streams_are_the_same_in_any_pieces(self, recordings_dir: Path, name: str) -> None:
        count = 0
        for exchange in exchanges(recordings_dir, name):
            if not exchange["sse"]:
                continue
            count += 1
            whole = streamed(exchange, 4096, name)
            assert streamed(exchange, 1, name) == streamed(exchange, 7, name) == whole
            assert isinstance(whole[-1], Finished)
            reply = whole[-1].reply
            assert reply.finish_reason in ("stop", "tool-calls"), exchange["id"]
            said = "".join(getattr(chunk, "text", "") for chunk in whole if not isinstance(chunk, ToolInputDelta))
            assert said == "".join(part.text for part in reply.parts if isinstance(part, Text | Reasoning))
        assert count >= STREAMED[name]

    def test_are_found_in_the_next_request(self, recordings_dir: Path, name: str) -> None:
        known = {exchange["id"]: exchange for exchange in exchanges(recordings_dir, name)}
        count, lost = 0, {}
        for exchange in known.values():
            before = known.get(exchange.get("continues") or "")
            reply = answer(before, name) if before else None
            if reply is None:
                continue
            count += 1
            sent = Sent(exchange["request"])
            if missing := [fact for fact in facts(reply) if fact not in sent]:
                lost[exchange["id"]] = missing
        assert lost == {}
        assert count >= CONTINUED[name]

    def test_that_refuse_are_classified(self, recordings_dir: Path, name: str) -> None:
        refused = [exchange for exchange in exchanges(recordings_dir, name) if exchange["status"] >= 400]
        for exchange in refused:
            text = msgspec.json.encode(exchange["response"]).decode()
            error = decode_error(exchange["status"], exchange["headers"], text, provider=name)
            assert error.message == exchange["response"]["error"]["message"]
            assert (error.error_class, error.is_retryable) == ("bad-request", False)
        assert len(refused) >= REFUSED[name]


def facts(reply: Reply) -> Iterator[tuple[str, Any]]:
    """Every text, call id (where the vendor gave one), name, argument and signature of an answer."""
    for part in reply.parts:
        own = (part.options or {}).get("google", {})
        if isinstance(part, Text | Reasoning):
            yield "text", squeezed(part.text)
        elif isinstance(part, ToolCall):
            # The vendor has no name for its code tool: the part's kind says it.
            if own.get("type") != "executableCode":
                yield "name", part.name
            yield "arguments", part.input
            if not own.get("withoutId"):
                yield "id", part.id
        elif isinstance(part, File):
            yield "text", squeezed(part.data)
        elif isinstance(part, ToolResult) and part.output.value:
            yield "arguments", part.output.value
        signature = own.get("thoughtSignature") or own.get("block", {}).get("thoughtSignature")
        if signature and not isinstance(part, ToolResult):
            yield "signature", unsealed(signature)


class Sent:
    """What a request holds, however it is spelt."""

    def __init__(self, request: Any) -> None:
        self._texts: list[str] = []
        self._objects: list[Any] = []
        self._walk(request)
        self._sealed = {unsealed(text) for text in self._texts}
        self._squeezed = "\n".join(squeezed(text) for text in self._texts)

    def __contains__(self, fact: tuple[str, Any]) -> bool:
        kind, value = fact
        match kind:
            case "text":
                return value in self._squeezed
            case "arguments":
                return any(all(item.get(key) == value[key] for key in value) for item in self._objects)
            case "signature":
                return value in self._sealed
            case _:
                return value in self._texts

    def _walk(self, value: Any) -> None:
        if isinstance(value, str):
            self._texts.append(value)
        elif isinstance(value, Mapping):
            self._objects.append(value)
            for item in value.values():
                self._walk(item)
        elif isinstance(value, list):
            for item in value:
                self._walk(item)


def squeezed(text: str) -> str:
    """Without white space and typographic signs: the source of the recordings normalised its requests."""
    return "".join(sign for sign in unicodedata.normalize("NFKC", text) if sign.isascii() and sign.isalnum())


def unsealed(signature: str) -> bytes:
    """The bytes of a signature: it goes back in the other alphabet of base64."""
    plain = signature.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4))
    except ValueError:
        return plain.encode()
