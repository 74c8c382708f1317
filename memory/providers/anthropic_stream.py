"""Streams of the Anthropic Messages protocol: the message that an unstreamed call would have given, event by event.

Source: Anthropic's reference of streamed messages. Counts of a `message_delta` are totals; kinds of events we do not
know are passed over, as the reference asks; fragments of a kind we do not know are joined under their own keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from memory.errors import InvalidInput
from memory.messages.halves import read_mended, write_mended
from memory.providers.shared import mapping, word_at
from memory.providers.sse import Event
from memory.providers.streams import error_in, object_of, unreadable
from memory.providers.wire import Chunk, ReasoningDelta, Reply, TextDelta, ToolInputDelta

_ARGUMENTS = "input"
# What a fragment of a known kind holds; further keys of it, such as estimates, are no part of the block.
_DELTAS = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}


class MessageReader:
    """Puts a message together; `decode` reads it as `decode_reply` does."""

    def __init__(self, decode: Callable[[Mapping[str, Any]], Reply], provider: str) -> None:
        self._decode = decode
        self._provider = provider
        self._message: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._blocks: list[_Block] = []
        self._by_index: dict[int, _Block] = {}
        self.has_ended = False

    @property
    def is_whole(self) -> bool:
        return self.has_ended

    def take(self, event: Event) -> Iterator[Chunk]:
        # Some hosts of this protocol close with the mark of the other one.
        if event.data == "[DONE]":
            return
        data = object_of(event, self._provider)
        match data.get("type"):
            case "message_start":
                yield from self._start(mapping(data.get("message")))
            case "content_block_start":
                block = _Block(mapping(data.get("content_block")))
                self._blocks.append(block)
                self._by_index[_index(data)] = block
                yield from block.opening()
            case "content_block_delta":
                opened = self._by_index.get(_index(data))
                if opened is None:
                    raise unreadable(self._provider, "a fragment of a block that was never begun", event)
                yield from opened.add(mapping(data.get("delta")))
            case "content_block_stop":
                if (closed := self._by_index.pop(_index(data), None)) is not None:
                    closed.is_open = False
            case "message_delta":
                self._message |= _said(mapping(data.get("delta")))
                self._usage |= _said(mapping(data.get("usage")))
            case "message_stop":
                self.has_ended = True
            case kind:
                if kind == "error" or event.name == "error" or data.get("error"):
                    raise error_in(event, self._provider)

    def _start(self, message: Mapping[str, Any]) -> Iterator[Chunk]:
        self._message, self._usage = dict(message), _said(mapping(message.get("usage")))
        # Calls from within a provider's code come whole in the first event.
        content = message.get("content")
        for item in content if isinstance(content, list) else ():
            block = _Block(mapping(item))
            block.is_open = False
            self._blocks.append(block)
            yield from block.opening()

    def reply(self) -> Reply:
        return self._decode(self._body(self._blocks))

    def partial(self) -> Reply:
        blocks = [block for block in self._blocks if not (block.is_open and block.is_call)]
        return self._decode(self._body(blocks))

    def _body(self, blocks: list[_Block]) -> dict[str, Any]:
        return {**self._message, "content": [block.written() for block in blocks], "usage": self._usage}


def _index(data: Mapping[str, Any]) -> int:
    index = data.get("index")
    return index if isinstance(index, int) else -1


def _said(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


class _Block:
    """A content block on its way: as it was begun, and the fragments for its keys."""

    def __init__(self, begun: Mapping[str, Any]) -> None:
        self._begun = dict(begun)
        self._fragments: dict[str, list[str]] = {}
        self.is_call = word_at(begun, "type").endswith("tool_use")
        self.is_open = True

    def opening(self) -> Iterator[Chunk]:
        if self.is_call:
            arguments = self._begun.get("input")
            yield self._arguments(write_mended(arguments) if arguments else "")
        elif text := word_at(self._begun, "text"):
            yield TextDelta(text)
        elif thought := word_at(self._begun, "thinking"):
            yield ReasoningDelta(thought)

    def add(self, delta: Mapping[str, Any]) -> Iterator[Chunk]:
        kind = word_at(delta, "type")
        if kind == "input_json_delta":
            if text := word_at(delta, "partial_json"):
                self._fragments.setdefault(_ARGUMENTS, []).append(text)
                yield self._arguments(text)
        elif kind == "citations_delta":
            self._begun["citations"] = [*(self._begun.get("citations") or ()), delta.get("citation")]
        elif (key := _DELTAS.get(kind)) is not None:
            if text := word_at(delta, key):
                self._fragments.setdefault(key, []).append(text)
                if key != "signature":
                    yield TextDelta(text) if key == "text" else ReasoningDelta(text)
        else:
            self._add_unknown(delta)

    def _add_unknown(self, delta: Mapping[str, Any]) -> None:
        for key, value in delta.items():
            if isinstance(value, str) and key != "type":
                self._fragments.setdefault(key, []).append(value)
            elif isinstance(value, list) and isinstance(before := self._begun.get(key) or [], list):
                self._begun[key] = before + value
            elif value is not None and key != "type":
                self._begun[key] = value

    def _arguments(self, text: str) -> ToolInputDelta:
        return ToolInputDelta(word_at(self._begun, "id"), word_at(self._begun, "name"), text)

    def written(self) -> dict[str, Any]:
        """The block as an unstreamed answer has it. Arguments that the output limit cut off stay a text."""
        out = dict(self._begun)
        for key, fragments in self._fragments.items():
            text = "".join(fragments)
            if key == _ARGUMENTS:
                try:
                    out[key] = read_mended(text)
                except InvalidInput:
                    out[key] = text
            else:
                out[key] = word_at(out, key) + text
        # Begun empty so that it can be filled, and was not: an unstreamed answer does not have it.
        for key in ("citations", "signature"):
            if key in out and not out[key]:
                del out[key]
        return out
