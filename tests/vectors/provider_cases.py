"""How each line of `provider_rejections.jsonl` is run: the whole way from a history to the last request sent.

A history in some protocol becomes stored messages, these a prompt for the target, the passes run, the request is
encoded; where the case plays an error, the run loop meets it.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from memory.errors import ProviderError
from memory.messages.from_prompt import stored_with_places
from memory.messages.lists import MessageList
from memory.messages.names import ModelRef, model_ref
from memory.messages.prompt import Text
from memory.messages.stored import clean_content, read_content
from memory.processors import (
    Chain,
    MemoryStorage,
    MessageHistory,
    ProviderHistoryCompat,
    StreamErrorRetryProcessor,
    Switches,
    run_turn,
)
from memory.processors.base import PromptResult
from memory.providers import wire_module
from memory.providers.calls import request_for
from memory.providers.wire import Finished, Settings
from tests.cases import checks

KNOWN_KEYS = {
    "id", "provider", "protocol", "model", "format", "source", "rules", "history", "request", "error", "action",
    "expect", "checks", "expected_request", "endpoint", "why", "confidence", "note",
}  # fmt: skip
MESSAGES_KEY = checks.MESSAGES_KEY


def run_case(case: dict[str, Any]) -> None:
    unknown = set(case) - KNOWN_KEYS
    assert not unknown, f"the case has keys nobody reads: {unknown}"
    case = checks.expand(case)
    if case["action"] == "storage":
        request, record = _through_the_store(case)
        protocol = case["format"]
    else:
        request, record = _through_the_loop(case)
        protocol = case["protocol"]
    for name, value in (case.get("checks") or {}).items():
        problem = checks.run_check(
            name, value, request, protocol=protocol, before=checks.naive_request(case), record=record
        )
        assert problem is None, f"{name}: {problem}"
    if case.get("expected_request"):
        problem = checks.compare_request(case["expected_request"], request, protocol)
        assert problem is None, f"expected_request: {problem}"


# From the history to stored messages


def stored_messages(case: Mapping[str, Any]) -> tuple[list[dict[str, Any]], list[str], Settings]:
    """Stored messages with ids and stamps, the system texts, and the settings of a body in the history's format."""
    history = [{k: v for k, v in item.items() if k != "origin"} for item in case["history"]]
    same = case["format"] == case["protocol"]
    body = {MESSAGES_KEY[case["format"]]: history, **(case.get("request") or {} if same else {})}
    provider = case["provider"] if same else ""
    read = wire_module(case["format"]).decode_request(body, provider=provider)
    origins = [item.get("origin") for item in case["history"] if _is_assistant(item)]
    stored = []
    spoken = 0
    for number, (_, message) in enumerate(stored_with_places(read.prompt)):
        message = copy.deepcopy(message)
        message |= {"id": f"m{number}", "threadId": "th-1", "resourceId": "res-1"}
        message["createdAt"] = f"2026-02-10T08:00:{number:02d}.000Z"
        if message["role"] == "assistant" and "orphanResult" not in json.dumps(message):
            origin = origins[spoken] if spoken < len(origins) else None
            spoken += 1
            if origin:
                ref = model_ref(origin)
                message["content"]["metadata"] = {"provider": ref.provider, "modelId": ref.model_id}
        stored.append(message)
    system = [message.text for message in read.prompt.messages if message.role == "system"]
    return stored, system, read.settings


def _is_assistant(item: Mapping[str, Any]) -> bool:
    kind = item.get("type")
    return item.get("role") in ("assistant", "model") or kind in ("function_call", "reasoning")


def settings_of(case: Mapping[str, Any], read: Settings) -> Settings:
    """The settings of a case's request to its target."""
    if case["format"] == case["protocol"]:
        return replace(read, model_id=case["model"])
    request = case.get("request") or {}
    if not request:
        return Settings(model_id=case["model"])
    body = {MESSAGES_KEY[case["protocol"]]: [], **request}
    return replace(
        wire_module(case["protocol"]).decode_request(body, provider=case["provider"]).settings, model_id=case["model"]
    )


# The loop


class Sent(Struct):
    body: bytes


class Model:
    """The target, which answers with the case's error as often as the case says, then with a short text."""

    def __init__(self, case: Mapping[str, Any], settings: Settings) -> None:
        self.ref = ModelRef(case["provider"], case["model"])
        self.protocol = case["protocol"]
        self.settings = settings
        self.bodies: list[bytes] = []
        self.is_compacted = False
        self._case = case
        self._wire = wire_module(case["protocol"])

    @property
    def call_settings(self) -> Mapping[str, Any]:
        return self.settings.extra

    @property
    def tool_names(self) -> list[str]:
        return [tool.name for tool in self.settings.tools if tool.raw is None]

    def encode(self, result: PromptResult) -> Sent:
        self.is_compacted = any(change.rule == "any-context-overflow" for change in result.changes)
        encoded = request_for(
            self.ref.provider,
            self.protocol,
            result.prompt,
            self.settings,
            tool_names=result.tool_names,
            needs=result.needs,
        )
        return Sent(encoded.body)

    def send(self, request: Sent) -> Any:
        self.bodies.append(request.body)
        error = self._case.get("error")
        if error and len(self.bodies) <= self._failures():
            raise self._failure(error)
        return Reply((Text("fine"),))

    def _failures(self) -> int:
        match self._case["action"]:
            case "repair" | "compact":
                return 1
            case "retry":
                return int((self._case.get("checks") or {}).get("retries_min", 1))
            case "fail":
                return 10**6
        return 0

    def _failure(self, error: Mapping[str, Any]) -> ProviderError:
        body = error["body"]
        if error["status"] == 200 and isinstance(body, str):
            try:
                for chunk in self._wire.decode_stream([body.encode()], provider=self.ref.provider):
                    assert not isinstance(chunk, Finished)
            except ProviderError as failure:
                return failure
        text = body if isinstance(body, str) else json.dumps(body)
        return self._wire.decode_error(error["status"], error.get("headers") or {}, text, provider=self.ref.provider)


class Reply(Struct):
    parts: tuple[Any, ...]
    finish_reason: str = "stop"


def _through_the_loop(case: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    stored, system, read = stored_messages(case)
    storage = MemoryStorage()
    storage.create_thread({"id": "th-1", "resourceId": "res-1", "title": "", "metadata": {}, "updatedAt": ""})
    storage.save_messages("th-1", "res-1", stored)
    before = copy.deepcopy(storage.load_messages("th-1", None, last=None))
    model = Model(case, settings_of(case, read))
    compat = ProviderHistoryCompat(compact_on_overflow=case["action"] == "compact")
    # A repair is looked at with the rules it names acting after the error only.
    switches = Switches(dict.fromkeys(case["rules"], "reactive") if case["action"] == "repair" else {})
    chain = Chain(
        input=[MessageHistory(storage=storage), compat],
        error=[StreamErrorRetryProcessor(max_retries=3, delay_ms=1000)],
        switches=switches,
    )
    listed = MessageList(thread_id="th-1", resource_id="res-1")
    for text in system:
        listed.add_system(text)
    waits: list[float] = []
    saved_final = False

    def wait(seconds: float) -> bool:
        waits.append(seconds)
        return False

    try:
        run_turn(chain, listed, model, wait=wait)
    except ProviderError:
        saved_final = any(
            m["role"] == "assistant" and not m["content"].get("metadata", {}).get("incomplete")
            for m in listed.tagged("response")
        )
    bodies = [json.loads(body.decode("utf-8", "surrogatepass")) for body in model.bodies]
    record = {
        "retries": len(bodies) - 1,
        "bodies": bodies,
        "waits_s": waits,
        "stored_before": before,
        "stored_after": storage.load_messages("th-1", None, last=None),
        "partial_saved_as_final": saved_final,
        "compacted": model.is_compacted,
    }
    return bodies[-1], record


# The store


def _through_the_store(case: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    from memory.messages.convert import to_prompt

    stored, system, read = stored_messages({**case, "protocol": case["format"], "provider": ""})
    kept = []
    for message in stored:
        text, _ = clean_content(message["content"])
        kept.append({**message, "content": read_content(text)})
    prompt = to_prompt(kept, system=system)
    encoded = wire_module(case["format"]).encode_request(prompt, read, provider="")
    body = msgspec.json.decode(encoded.body)
    record = {
        "retries": 0, "bodies": [body], "waits_s": [], "stored_before": stored, "stored_after": kept,
        "partial_saved_as_final": False, "compacted": False,
    }  # fmt: skip
    return body, record
