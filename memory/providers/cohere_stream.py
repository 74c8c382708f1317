"""Streams of Cohere's chat protocol: the answer that an unstreamed call would have given, event by event.

Content, calls and citations have indices of their own; the plan before the calls has none. Kinds of events we do not
know are passed over. Source: Cohere's reference of streamed chat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from memory.messages.halves import write_mended
from memory.providers.classify import classify
from memory.providers.shared import mapping, word_at
from memory.providers.sse import Event
from memory.providers.streams import error_in, object_of, unreadable
from memory.providers.wire import Chunk, ReasoningDelta, Reply, TextDelta, ToolInputDelta


class _Call:
    def __init__(self, begun: Mapping[str, Any]) -> None:
        self.begun = begun
        self.function = mapping(begun.get("function"))
        self.arguments = [word_at(self.function, "arguments")]
        self.is_open = True

    def delta(self, text: str) -> ToolInputDelta:
        return ToolInputDelta(word_at(self.begun, "id"), word_at(self.function, "name"), text)

    def written(self) -> dict[str, Any]:
        return {**self.begun, "function": {**self.function, "arguments": "".join(self.arguments)}}


class ChatReader:
    """Puts an answer together; `decode` reads it as `decode_reply` does."""

    def __init__(self, decode: Callable[[Mapping[str, Any]], Reply], provider: str) -> None:
        self._decode = decode
        self._provider = provider
        self._id = ""
        self._end: Mapping[str, Any] = {}
        self._plan: list[str] = []
        self._content: dict[Any, dict[str, Any]] = {}
        self._calls: dict[Any, _Call] = {}
        self._citations: dict[Any, Any] = {}
        self.has_ended = False

    @property
    def is_whole(self) -> bool:
        return self.has_ended

    def take(self, event: Event) -> Iterator[Chunk]:
        if event.data == "[DONE]":
            return
        data = object_of(event, self._provider)
        kind = word_at(data, "type") or event.name
        delta, index = mapping(data.get("delta")), data.get("index")
        message = mapping(delta.get("message"))
        match kind:
            case "message-start":
                self._id = word_at(data, "id")
            case "content-start":
                self._content[index] = dict(mapping(message.get("content")))
                yield from self._fragments(self._content[index])
            case "content-delta":
                yield from self._add_content(index, mapping(message.get("content")))
            case "tool-plan-delta":
                if text := word_at(message, "tool_plan"):
                    self._plan.append(text)
                    yield ReasoningDelta(text)
            case "tool-call-start":
                call = self._calls[index] = _Call(mapping(message.get("tool_calls")))
                yield call.delta(call.arguments[0])
            case "tool-call-delta":
                yield self._add_arguments(index, mapping(message.get("tool_calls")), event)
            case "tool-call-end":
                if index in self._calls:
                    self._calls[index].is_open = False
            case "citation-start":
                self._citations[index] = message.get("citations")
            case "message-end":
                if said := word_at(delta, "error"):
                    raise classify(self._provider, 200, {}, write_mended({"message": said}))
                self._end, self.has_ended = delta, True
            case _:
                if event.name == "error" or data.get("error") or (not kind and data.get("message")):
                    raise error_in(event, self._provider)

    def _fragments(self, content: Mapping[str, Any]) -> Iterator[Chunk]:
        if text := word_at(content, "text"):
            yield TextDelta(text)
        if thought := word_at(content, "thinking"):
            yield ReasoningDelta(thought)

    def _add_content(self, index: Any, content: Mapping[str, Any]) -> Iterator[Chunk]:
        begun = self._content.setdefault(index, {})
        for key, value in content.items():
            if isinstance(value, str) and key != "type":
                begun[key] = word_at(begun, key) + value
                # A host may leave out the beginning, which names the type.
                begun.setdefault("type", key)
            else:
                begun[key] = value
        yield from self._fragments(content)

    def _add_arguments(self, index: Any, value: Mapping[str, Any], event: Event) -> Chunk:
        call = self._calls.get(index)
        if call is None:
            raise unreadable(self._provider, "arguments of a call that was never begun", event)
        text = word_at(mapping(value.get("function")), "arguments")
        call.arguments.append(text)
        return call.delta(text)

    def reply(self) -> Reply:
        return self._decode(self._body([*self._calls.values()]))

    def partial(self) -> Reply:
        return self._decode(self._body([call for call in self._calls.values() if not call.is_open]))

    def _body(self, calls: list[_Call]) -> dict[str, Any]:
        message: dict[str, Any] = {
            "tool_plan": "".join(self._plan),
            "content": [*self._content.values()],
            "tool_calls": [call.written() for call in calls],
            "citations": _listed(self._citations.values()),
        }
        end = self._end
        return {
            "id": self._id,
            "message": message,
            "finish_reason": end.get("finish_reason"),
            "usage": end.get("usage"),
        }


def _listed(values: Any) -> list[Any]:
    """Citations one by one: an event may hold one or a list of them."""
    out: list[Any] = []
    for value in values:
        out.extend(value if isinstance(value, list) else [value])
    return out
