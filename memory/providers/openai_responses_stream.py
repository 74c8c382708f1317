"""Streams of the Responses protocol: the response that an unstreamed call would have given, chunk by chunk.

An item is what `response.output_item.done` says of it. The last event repeats all items, but leaves some out at times,
seals reasoning anew, and some hosts give other ids in it: its list counts only where it says more. Items are told
apart by their place in the output, for the same hosts change an item's id from event to event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from memory.providers.shared import mapping, word_at
from memory.providers.sse import Event
from memory.providers.streams import error_in, object_of, unreadable
from memory.providers.wire import Chunk, ReasoningDelta, Reply, TextDelta, ToolInputDelta

_LAST = ("response.completed", "response.incomplete", "response.cancelled")
_TEXTS = {
    "response.output_text.delta": ("content", "output_text", "content_index"),
    "response.refusal.delta": ("content", "refusal", "content_index"),
    "response.reasoning_summary_text.delta": ("summary", "summary_text", "summary_index"),
    "response.reasoning_text.delta": ("content", "reasoning_text", "content_index"),
}
_INPUTS = {
    "response.function_call_arguments.delta": "arguments",
    "response.mcp_call_arguments.delta": "arguments",
    "response.custom_tool_call_input.delta": "input",
}
_CALLS = {"function_call": "arguments", "mcp_call": "arguments", "custom_tool_call": "input"}


class ResponseReader:
    """Puts a response together; `decode` reads it as `decode_reply` does."""

    def __init__(self, decode: Callable[[Mapping[str, Any]], Reply], provider: str) -> None:
        self._decode = decode
        self._provider = provider
        self._response: Mapping[str, Any] = {}
        self._done: dict[int, Mapping[str, Any]] = {}
        self._open: dict[int, _Open] = {}
        self.has_ended = False

    @property
    def is_whole(self) -> bool:
        return self.has_ended

    def take(self, event: Event) -> Iterator[Chunk]:
        if event.data == "[DONE]":
            return
        data = object_of(event, self._provider)
        kind = word_at(data, "type") or event.name
        if kind in ("error", "response.failed") or (data.get("error") and not kind.startswith("response.")):
            raise error_in(event, self._provider)
        if isinstance(response := data.get("response"), Mapping):
            self._response = response
        at = data.get("output_index")
        if kind in _LAST:
            if not isinstance(response, Mapping):
                raise unreadable(self._provider, "an end without its response", event)
            self.has_ended = True
        elif not isinstance(at, int):
            return
        elif kind == "response.output_item.added":
            self._open[at] = item = _Open(mapping(data.get("item")))
            if item.kind in _CALLS:
                yield item.input("")
        elif kind == "response.output_item.done":
            done = data.get("item")
            if not isinstance(done, Mapping):
                raise unreadable(self._provider, "an item that is no object", event)
            self._done[at] = done
            opened = self._open.pop(at, None)
            if opened is None or not opened.has_shown:
                yield from _whole(done)
        elif isinstance(delta := data.get("delta"), str):
            yield from self._add(kind, at, delta, data)

    def _add(self, kind: str, at: int, delta: str, data: Mapping[str, Any]) -> Iterator[Chunk]:
        if (text := _TEXTS.get(kind)) is not None:
            key, piece, number = text
            is_reasoning = "reasoning" in kind
            made = {"type": "reasoning" if is_reasoning else "message", "role": "assistant", "id": data.get("item_id")}
            index = data.get(number)
            self._open.setdefault(at, _Open(made)).add(key, piece, index if isinstance(index, int) else 0, delta)
            yield ReasoningDelta(delta) if is_reasoning else TextDelta(delta)
        elif kind in _INPUTS and (item := self._open.get(at)) is not None:
            item.has_shown = True
            yield item.input(delta)

    def reply(self) -> Reply:
        items = [self._done[at] for at in sorted(self._done)]
        last = self._response.get("output")
        output = last if isinstance(last, list) and len(last) > len(items) else items
        return self._decode({**self._response, "output": output})

    def partial(self) -> Reply:
        """What came so far; of the items that are not complete only those with text."""
        items = dict(self._done) | {at: item.written() for at, item in self._open.items() if item.has_text}
        return self._decode({**self._response, "error": None, "output": [items[at] for at in sorted(items)]})


class _Open:
    """An item that is not complete yet."""

    def __init__(self, item: Mapping[str, Any]) -> None:
        self._item = item
        self._texts: dict[tuple[str, int, str], list[str]] = {}
        self.kind = word_at(item, "type")
        self.has_shown = False

    @property
    def has_text(self) -> bool:
        return bool(self._texts)

    def add(self, key: str, piece: str, index: int, text: str) -> None:
        self.has_shown = True
        self._texts.setdefault((key, index, piece), []).append(text)

    def input(self, text: str) -> ToolInputDelta:
        call_id = word_at(self._item, "call_id") or word_at(self._item, "id")
        return ToolInputDelta(call_id, word_at(self._item, "name"), text)

    def written(self) -> dict[str, Any]:
        out: dict[str, Any] = {**self._item, "content": [], "summary": []}
        for key, index, piece in sorted(self._texts):
            text = "".join(self._texts[key, index, piece])
            out[key].append({"type": piece, ("refusal" if piece == "refusal" else "text"): text})
        return out


def _whole(item: Mapping[str, Any]) -> Iterator[Chunk]:
    """The chunks of an item that came at once."""
    kind = word_at(item, "type")
    if key := _CALLS.get(kind):
        if text := word_at(item, key):
            yield _Open(item).input(text)
        return
    if kind not in ("message", "reasoning"):
        return
    for key in ("summary", "content"):
        pieces = item.get(key)
        for piece in pieces if isinstance(pieces, list) else ():
            text = word_at(mapping(piece), "text") or word_at(mapping(piece), "refusal")
            if text:
                yield ReasoningDelta(text) if kind == "reasoning" else TextDelta(text)
