"""Recorded traffic of the Responses protocol, whoever answered: OpenAI, Azure and six other hosts."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from memory.messages.convert import to_prompt
from memory.messages.from_prompt import from_prompt
from memory.messages.prompt import Part, Prompt, Reasoning, Text, ToolCall, holds_raw_block
from memory.messages.stored import clean_content, read_content
from memory.providers import openai_responses, wire_module
from memory.providers.wire import Finished, Imported, ReasoningDelta, Reply, TextDelta, ToolInputDelta
from tests.recordings.compare_openai_responses import differences

FILES = ("azure", "bedrock", "deepseek", "openai-responses", "openrouter", "other", "xai")
PROVIDERS = {"openai-responses": "openai", "openai-chat": "openai"}
# Fewer than these would mean that the test looks past the traffic.
LEAST = {"requests": 169, "replies": 169, "streams": 55, "errors": 5, "continued": 55}

NOT_FINISHED = {
    # Asked for in the background: the answer says that it is not there yet.
    "openai-responses.background-mode-streaming-without-starting-after-vcr-44f86.1",
    "openai-responses.background-mode-streaming-without-starting-after-vcr-44f86.2",
    "openai-responses.background-mode-vcr-2de10.1",
    "openai-responses.background-mode-vcr-2de10.2",
}
REWRITTEN = {
    # The host names two calls `call_0`, so the client put the response's id before the call's.
    "bedrock-mantle.reused-tool-call-ids-request-61524.2": {"call_0"},
    "bedrock-mantle.reused-tool-call-ids-request-61524.3": {"call_0"},
    "bedrock-mantle.reused-tool-call-ids-stream-7bdd9.2": {"call_0"},
    "bedrock-mantle.reused-tool-call-ids-stream-7bdd9.3": {"call_1"},
    # The client does not send back file searches.
    "openai-responses.openai-responses-model-file-search-tool-e7e1d.2": {
        "fs_0995dffd0769e0bd006931d72fecf48194bf314348aa6b2494"
    },
    # The client leaves the sources of a web search out.
    "openai-responses.openai-responses-model-web-search-tool-stream-956d8.2": {
        "ws_00a60507bf41223d0068c9d30021d081a0962d80d50c12e317"
    },
    # Recorded in more than one run: the ids differ between the answer and the next request.
    "openai-responses.openai-responses-stream-58272.2": {"call_kL0PCQV7M2WMoVX8V8OtYSAL"},
    # The client writes a tool search in a form of its own: `queries` for `paths`.
    "tool-search.live-tool-search-handoff-openai-to-anthropic-b46ef.2": {
        "tsc_014bb72ece6164a9006a6912e449808194b322911256159cff"
    },
    "tool-search.openai-native-tool-search-with-deferred-capability-29ae8.2": {
        "tsc_091af5051d4967d3006a72162109808196b47a7bc5b4b9ce94"
    },
    "tool-search.openai-native-tool-search-with-deferred-capability-gpt-5-4c906.2": {
        "tsc_0340ae0a8b1cb97e006a72162958188193af444149f7c49678"
    },
}
"""Next requests in which the recording client wrote a call in another way, and the id that the answer gave it."""

SHORTENED_STREAMS = {
    # The fixture keeps only some of the text's fragments; its finished item has the whole text.
    "ai-openai.openai-shell-container.1-stream-acdda.1",
}


def exchanges(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """All exchanges of the protocol with the provider that answered."""
    for name in FILES:
        for line in (folder / f"{name}.jsonl").read_bytes().splitlines():
            exchange: dict[str, Any] = msgspec.json.decode(line)
            if exchange["protocol"] == openai_responses.PROTOCOL:
                yield PROVIDERS.get(name, name), exchange


def through_the_store(prompt: Prompt) -> Prompt:
    """The prompt that its own stored texts make; system messages are not stored, they come from elsewhere."""
    stored = [
        {**message, "content": read_content(clean_content(message["content"])[0])} for message in from_prompt(prompt)
    ]
    system = tuple(message for message in prompt.messages if message.role == "system")
    return Prompt(system + to_prompt(stored).messages)


def encoded_again(imported: Imported, prompt: Prompt, provider: str) -> dict[str, Any]:
    encoded = openai_responses.encode_request(prompt, imported.settings, provider=provider)
    body: dict[str, Any] = msgspec.json.decode(encoded.body)
    return body


def in_pieces(sse: str, size: int) -> Iterator[bytes]:
    raw = sse.encode()
    return (raw[start : start + size] for start in range(0, len(raw), size))


def streamed(exchange: dict[str, Any], provider: str, size: int = 4096) -> list[Any]:
    return list(openai_responses.decode_stream(in_pieces(exchange["sse"], size), provider=provider))


def reply_of(exchange: dict[str, Any], provider: str) -> Reply:
    if exchange["sse"]:
        reply: Reply = streamed(exchange, provider)[-1].reply
        return reply
    return openai_responses.decode_reply(exchange["response"], provider=provider)


class TestAcceptedRequests:
    def test_come_back_with_their_meaning(self, recordings_dir: Path) -> None:
        changed = {}
        count = 0
        for provider, exchange in exchanges(recordings_dir):
            if exchange["status"] == 200 and exchange["request"]:
                imported = openai_responses.decode_request(exchange["request"], provider=provider)
                again = encoded_again(imported, imported.prompt, provider)
                changed[exchange["id"]] = differences(exchange["request"], again)
                count += 1
        assert {key: found for key, found in changed.items() if found} == {}
        assert count >= LEAST["requests"]

    def test_keep_it_when_stored_in_between(self, recordings_dir: Path) -> None:
        changed = {}
        for provider, exchange in exchanges(recordings_dir):
            if exchange["status"] == 200 and exchange["request"]:
                imported = openai_responses.decode_request(exchange["request"], provider=provider)
                again = encoded_again(imported, through_the_store(imported.prompt), provider)
                changed[exchange["id"]] = differences(exchange["request"], again, was_stored=True)
        assert {key: found for key, found in changed.items() if found} == {}

    def test_are_written_as_the_vendors_own_types_demand(self, recordings_dir: Path) -> None:
        from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming
        from pydantic import TypeAdapter, ValidationError

        adapter = TypeAdapter[Any](ResponseCreateParamsNonStreaming)
        wrong = {}
        for provider, exchange in exchanges(recordings_dir):
            if exchange["status"] == 200 and exchange["request"]:
                imported = openai_responses.decode_request(exchange["request"], provider=provider)
                try:
                    adapter.validate_python(encoded_again(imported, imported.prompt, provider))
                except ValidationError as error:
                    wrong[exchange["id"]] = str(error)[:300]
        assert wrong == {}

    def test_have_a_place_for_every_part(self, recordings_dir: Path) -> None:
        for provider, exchange in exchanges(recordings_dir):
            if exchange["request"]:
                imported = openai_responses.decode_request(exchange["request"], provider=provider)
                encoded = openai_responses.encode_request(imported.prompt, imported.settings, provider=provider)
                for i, message in enumerate(imported.prompt.messages):
                    for j in range(-1, len(message.parts)):
                        assert (i, j) in encoded.places, (exchange["id"], i, j)


class TestAnswers:
    def test_are_read(self, recordings_dir: Path) -> None:
        count = 0
        for provider, exchange in exchanges(recordings_dir):
            if exchange["status"] == 200 and exchange["response"]:
                reply = openai_responses.decode_reply(exchange["response"], provider=provider)
                is_finished = exchange["id"] not in NOT_FINISHED
                assert bool(reply.parts) == is_finished, exchange["id"]
                assert (reply.finish_reason != "other") == is_finished, exchange["id"]
                assert bool(reply.usage.output_tokens) == is_finished or exchange["handmade"], exchange["id"]
                count += 1
        assert count >= LEAST["replies"]

    def test_go_back_item_by_item(self, recordings_dir: Path) -> None:
        changed = {}
        for provider, exchange in exchanges(recordings_dir):
            if exchange["status"] == 200 and exchange["response"] and exchange["response"]["output"]:
                output = exchange["response"]["output"]
                imported = openai_responses.decode_request({"input": output}, provider=provider)
                again = encoded_again(imported, imported.prompt, provider)
                changed[exchange["id"]] = differences({"input": without_logprobs(output)}, without_logprobs(again))
        assert {key: found for key, found in changed.items() if found} == {}

    def test_read_alike_in_any_pieces(self, recordings_dir: Path) -> None:
        count = 0
        for provider, exchange in exchanges(recordings_dir):
            if exchange["sse"]:
                chunks = streamed(exchange, provider)
                for size in (1, 7):
                    assert streamed(exchange, provider, size) == chunks, (exchange["id"], size)
                assert isinstance(chunks[-1], Finished)
                assert chunks[-1].reply.finish_reason not in ("other", "error"), exchange["id"]
                count += 1
        assert count >= LEAST["streams"]

    def test_say_in_fragments_what_they_say_as_a_whole(self, recordings_dir: Path) -> None:
        for provider, exchange in exchanges(recordings_dir):
            if not exchange["sse"] or exchange["id"] in SHORTENED_STREAMS:
                continue
            *chunks, last = streamed(exchange, provider)
            parts = last.reply.parts
            said = "".join(part.text for part in parts if isinstance(part, Text) and not holds_raw_block(part))
            thought = "".join(part.text for part in parts if isinstance(part, Reasoning))
            assert "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta)) == said, exchange["id"]
            assert "".join(chunk.text for chunk in chunks if isinstance(chunk, ReasoningDelta)) == thought
            for part in parts:
                if isinstance(part, ToolCall) and not part.provider_executed and isinstance(part.input, dict):
                    written = "".join(
                        chunk.text for chunk in chunks if isinstance(chunk, ToolInputDelta) and chunk.call_id == part.id
                    )
                    if part.name not in ("local_shell", "tool_search"):
                        assert msgspec.json.decode(written) == part.input, exchange["id"]

    def test_that_refuse_are_classified(self, recordings_dir: Path) -> None:
        count = 0
        for provider, exchange in exchanges(recordings_dir):
            if exchange["status"] >= 400:
                text = msgspec.json.encode(exchange["response"]).decode()
                error = openai_responses.decode_error(exchange["status"], exchange["headers"], text, provider=provider)
                assert error.message == exchange["response"]["error"]["message"]
                assert (error.error_class, error.is_retryable) == ("bad-request", False)
                count += 1
        assert count >= LEAST["errors"]


def without_logprobs(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_logprobs(item) for key, item in value.items() if (key, item) != ("logprobs", [])}
    return [without_logprobs(item) for item in value] if isinstance(value, list) else value


class TestContinuedAnswers:
    def test_are_found_in_the_next_request(self, recordings_dir: Path) -> None:
        answered = {exchange["id"]: (provider, exchange) for provider, exchange in exchanges(recordings_dir)}
        missing = {}
        count = 0
        for file in sorted(recordings_dir.glob("*.jsonl")):
            for line in file.read_bytes().splitlines():
                later = msgspec.json.decode(line)
                request = later["request"]
                if later.get("continues") not in answered or not request:
                    continue
                if request.get("previous_response_id") or request.get("conversation"):
                    continue  # Its history lies at the provider.
                provider, earlier = answered[later["continues"]]
                imported = wire_module(later["protocol"]).decode_request(
                    request, provider=PROVIDERS.get(file.stem, file.stem)
                )
                there = {fact for message in imported.prompt.messages for part in message.parts for fact in facts(part)}
                lost = {fact for part in reply_of(earlier, provider).parts for fact in facts(part)} - there
                rewritten = {fact for fact in lost if fact[0] == "call" and fact[1] in REWRITTEN.get(later["id"], ())}
                assert bool(rewritten) == (later["id"] in REWRITTEN), later["id"]
                if lost - rewritten:
                    missing[later["id"]] = lost - rewritten
                count += 1
        assert missing == {}
        assert count >= LEAST["continued"]


def facts(part: Part) -> Iterator[tuple[str, ...]]:
    """Text, call and seal of a part."""
    match part:
        case Text(text=text) if squeezed(text):
            yield "text", squeezed(text)
        case ToolCall():
            yield "call", part.id, part.name, squeezed(msgspec.json.encode(part.input, order="sorted").decode())
        case Reasoning():
            seal = (part.options or {}).get("openai", {}).get("reasoningEncryptedContent")
            if seal:
                yield "seal", seal


def squeezed(text: str) -> str:
    """As the recordings keep bodies: NFKC, typographic signs as ASCII; white space aside."""
    signs = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "—": "--", "…": "..."})
    return "".join(unicodedata.normalize("NFKC", text.translate(signs)).split())
