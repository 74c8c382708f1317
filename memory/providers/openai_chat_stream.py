"""Streams of the Chat Completions protocol: the completion that an unstreamed call would have given, chunk by chunk.

Hosts differ most in calls. A fragment belongs to the call of its index, or of its id where it has no index; it begins
another call where its id or, without ids, a name behind complete arguments says so: some hosts give all calls of a
turn the index 0. Only the first of several choices is read, as in an unstreamed answer.

The end mark is `[DONE]`; where a host leaves it out, a finish reason before an orderly end is as good.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from memory.errors import ProviderError
from memory.messages.halves import write_mended
from memory.providers.classify import classify
from memory.providers.shared import mapping, word_at
from memory.providers.sse import Event
from memory.providers.streams import error_in, object_of, unreadable
from memory.providers.wire import Chunk, ReasoningDelta, Reply, TextDelta, ToolInputDelta

_REASONING = ("reasoning_content", "reasoning")
_TEXTS = (*_REASONING, "refusal")


class CompletionReader:
    """Puts a completion together; `decode` reads it as `decode_reply` does."""

    def __init__(self, decode: Callable[[Mapping[str, Any]], Reply], provider: str) -> None:
        self._decode = decode
        self._provider = provider
        self._body: dict[str, Any] = {}
        self._message: dict[str, Any] = {}
        self._fragments: dict[str, list[str]] = {}
        self._content = _Content()
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._finish_reason = ""
        self._has_choice = False
        self._last: Event | None = None
        self.has_ended = False

    @property
    def is_whole(self) -> bool:
        return self.has_ended or bool(self._finish_reason)

    def take(self, event: Event) -> Iterator[Chunk]:
        if event.data == "[DONE]":
            self.has_ended = True
            return
        data = object_of(event, self._provider)
        if _is_error(event, data):
            raise error_in(event, self._provider)
        self._last = event
        for key in ("id", "model"):
            if not self._body.get(key) and word_at(data, key):
                self._body[key] = data[key]
        choices = data.get("choices")
        choice = next((c for c in choices if _is_first(c)), None) if isinstance(choices, list) else None
        usage = data.get("usage") or mapping(data.get("x_groq")).get("usage") or mapping(choice).get("usage")
        if isinstance(usage, Mapping):
            self._body["usage"] = usage
        if choice is None:
            return
        self._has_choice = True
        if error := choice.get("error"):
            raise classify(self._provider, 200, {}, write_mended({"error": error}))
        self._finish_reason = word_at(choice, "finish_reason") or self._finish_reason
        yield from self._add(mapping(choice.get("delta")), event)

    def _add(self, delta: Mapping[str, Any], event: Event) -> Iterator[Chunk]:
        # Some hosts say the same reasoning under both names.
        thought = next((word_at(delta, key) for key in _REASONING if word_at(delta, key)), "")
        if thought:
            yield ReasoningDelta(thought)
        for key, value in delta.items():
            if value is None or value == "" or key == "role":
                continue
            if key in _TEXTS and isinstance(value, str):
                self._fragments.setdefault(key, []).append(value)
                if key == "refusal":
                    yield TextDelta(value)
            elif key == "content":
                yield from self._content.add(value)
            elif key == "tool_calls":
                for fragment in value if isinstance(value, list) else ():
                    if not isinstance(fragment, Mapping):
                        raise unreadable(self._provider, "a call that is no object", event)
                    yield self._call_of(fragment).add(fragment)
            elif key == "reasoning_details" and isinstance(value, list):
                self._message[key] = _joined_details(self._message.get(key, []), value)
            elif key == "audio" and isinstance(value, Mapping):
                self._message[key] = _joined_audio(self._message.get(key, {}), value)
            elif isinstance(value, list) and isinstance(before := self._message.get(key, []), list):
                self._message[key] = before + value
            else:
                self._message[key] = value

    def _call_of(self, fragment: Mapping[str, Any]) -> _Call:
        index, call_id = fragment.get("index"), word_at(fragment, "id")
        if isinstance(index, int):
            call = self._by_index.get(index)
        elif call_id:
            call = next((known for known in reversed(self._calls) if known.id == call_id), None)
        else:
            call = self._calls[-1] if self._calls else None
        if call is None or call.is_followed_by(fragment):
            call = _Call()
            self._calls.append(call)
        if isinstance(index, int):
            self._by_index[index] = call
        return call

    def reply(self) -> Reply:
        if self._finish_reason == "error":
            raise ProviderError(
                f"{self._provider}: the answer broke off with an error that was not named",
                status=200,
                error_class="transient",
                is_retryable=True,
                response_body=self._last.data if self._last else None,
            )
        if not self._has_choice:
            raise ProviderError(
                f"{self._provider}: a stream that can't be read: no message",
                status=200,
                error_class="transient",
                is_retryable=True,
            )
        return self._decode(self._completion(self._calls))

    def partial(self) -> Reply:
        return self._decode(self._completion([call for call in self._calls if call.is_complete]))

    def _completion(self, calls: list[_Call]) -> dict[str, Any]:
        message = {**self._message, "content": self._content.written()}
        message |= {key: "".join(fragments) for key, fragments in self._fragments.items()}
        if calls:
            message["tool_calls"] = [call.written() for call in calls]
        return {**self._body, "choices": [{"message": message, "finish_reason": self._finish_reason}]}


def _is_first(choice: Any) -> bool:
    return isinstance(choice, Mapping) and not choice.get("index")


def _is_error(event: Event, data: Mapping[str, Any]) -> bool:
    """Whether a chunk is an error in one of the spellings of hosts: as OpenAI's, bare, or MiniMax's `base_resp`."""
    if event.name == "error" or data.get("error") or data.get("object") == "error":
        return True
    if mapping(data.get("base_resp")).get("status_code"):
        return True
    return "choices" not in data and any(key in data for key in ("message", "detail"))


class _Content:
    """The content of the message: one text, or a list of parts where a host streams parts."""

    def __init__(self) -> None:
        self._parts: list[dict[str, Any]] = []
        self._texts: list[str] = []
        self._is_list = False

    def add(self, value: Any) -> Iterator[Chunk]:
        if isinstance(value, str):
            self._texts.append(value)
            yield TextDelta(value)
        for part in value if isinstance(value, list) else ():
            self._is_list = True
            match part:
                case {"type": "text", "text": str() as text} if len(part) == 2:
                    self._texts.append(text)
                    if text:
                        yield TextDelta(text)
                case {"type": "thinking"}:
                    yield from self._add_thinking(part)
                case Mapping():
                    self._close_text()
                    self._parts.append(dict(part))

    def _add_thinking(self, part: Mapping[str, Any]) -> Iterator[Chunk]:
        self._close_text()
        thinking = part.get("thinking")
        items = [{"type": "text", "text": thinking}] if isinstance(thinking, str) else thinking
        items = [dict(item) for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []
        last = self._parts[-1] if self._parts and self._parts[-1]["type"] == "thinking" else None
        if last is None:
            self._parts.append(last := {"type": "thinking", "thinking": []})
        last |= {key: value for key, value in part.items() if key not in ("type", "thinking")}
        said: list[dict[str, Any]] = last["thinking"]
        for item in items:
            text = word_at(item, "text")
            if said and item.keys() == said[-1].keys() == {"type", "text"} and item["type"] == said[-1]["type"]:
                said[-1]["text"] += text
            else:
                said.append(item)
            if text:
                yield ReasoningDelta(text)

    def _close_text(self) -> None:
        if text := "".join(self._texts):
            self._parts.append({"type": "text", "text": text})
        self._texts = []

    def written(self) -> str | list[dict[str, Any]] | None:
        if not self._is_list:
            return "".join(self._texts) or None
        text = "".join(self._texts)
        return [*self._parts, {"type": "text", "text": text}] if text else list(self._parts)


class _Call:
    """A call on its way."""

    def __init__(self) -> None:
        self.id = ""
        self._extra: dict[str, Any] = {}
        self._inner: dict[str, Any] = {}
        self._kind = "function"
        self._arguments: list[str] = []
        self._whole: Any = None
        """Arguments that came as an object in place of a text."""

    def is_followed_by(self, fragment: Mapping[str, Any]) -> bool:
        """Whether a fragment with this call's index begins another call."""
        call_id = word_at(fragment, "id")
        has_name = bool(word_at(mapping(fragment.get("function") or fragment.get("custom")), "name"))
        if not has_name:
            return False
        return call_id != self.id if call_id and self.id else not call_id and self.is_complete

    def add(self, fragment: Mapping[str, Any]) -> ToolInputDelta:
        self.id = self.id or word_at(fragment, "id")
        self._extra |= {
            key: value
            for key, value in fragment.items()
            if key not in ("index", "id", "type", "function", "custom") and value is not None
        }
        if isinstance(fragment.get("custom"), Mapping):
            self._kind = "custom"
        inner = mapping(fragment.get(self._kind))
        key = "input" if self._kind == "custom" else "arguments"
        for name, value in inner.items():
            if name != key and value not in (None, ""):
                self._inner.setdefault(name, value)
        value = inner.get(key)
        text = value if isinstance(value, str) else ""
        if isinstance(value, Mapping):
            self._whole, text = value, write_mended(value)
        elif text:
            self._arguments.append(text)
        return ToolInputDelta(self.id, word_at(self._inner, "name"), text)

    @property
    def is_complete(self) -> bool:
        if self._whole is not None:
            return True
        try:
            msgspec.json.decode("".join(self._arguments))
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return False
        return True

    def written(self) -> dict[str, Any]:
        key = "input" if self._kind == "custom" else "arguments"
        arguments = "".join(self._arguments) if self._whole is None else self._whole
        return {**self._extra, "id": self.id, "type": self._kind, self._kind: {**self._inner, key: arguments}}


def _joined_details(before: list[Any], more: list[Any]) -> list[Any]:
    """Reasoning details with those of one more chunk: texts and summaries of the same entry are joined."""
    out = list(before)
    for item in more:
        last = out[-1] if out else None
        if isinstance(item, Mapping) and isinstance(last, Mapping) and _is_same_detail(last, item):
            joined = {**last, **{key: value for key, value in item.items() if value is not None}}
            for key in ("text", "summary"):
                if key in last or key in item:
                    joined[key] = word_at(last, key) + word_at(item, key)
            out[-1] = joined
        else:
            out.append(item)
    return out


def _is_same_detail(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    if one.get("type") not in ("reasoning.text", "reasoning.summary"):
        return False
    is_same_id = one.get("id") is None or other.get("id") is None or one["id"] == other["id"]
    return is_same_id and all(one.get(key) == other.get(key) for key in ("type", "index"))


def _joined_audio(before: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    out = {**before, **more}
    for key in ("data", "transcript"):
        if key in before and key in more:
            out[key] = word_at(before, key) + word_at(more, key)
    return out
