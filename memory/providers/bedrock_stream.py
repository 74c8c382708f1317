"""The events of a Converse stream, put together to the body that an unstreamed call would have given.

A block has an index; only tool blocks and images announce themselves, the others begin with their first fragment.
The stream ends after `messageStop`; usage (`metadata`) comes behind it, or not at all.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from memory.errors import InvalidInput
from memory.messages.halves import read_mended
from memory.providers.shared import mapping, word_at
from memory.providers.wire import ReasoningDelta, TextDelta, ToolInputDelta

Delta = TextDelta | ReasoningDelta | ToolInputDelta


class _Block:
    """A block under way: how it was announced, and the fragments of its members, oldest first."""

    def __init__(self) -> None:
        self.start: Mapping[str, Any] = {}
        self.texts: list[str] = []
        self.citations: list[Any] = []
        self.arguments: list[str] = []
        self.thoughts: list[str] = []
        self.signature = ""
        self.redacted: list[str] = []
        self.results: list[Any] = []
        self.unknown: dict[str, Any] = {}
        self.is_complete = False


class Assembly:
    """A reply under way."""

    def __init__(self) -> None:
        self._blocks: dict[int, _Block] = {}
        self._stop: Mapping[str, Any] = {}
        self._metadata: Mapping[str, Any] = {}
        self.is_whole = False

    @property
    def has_ended(self) -> bool:
        """Whether nothing more is waited for: the model has said why it stopped (`is_whole`), and usage is there."""
        return self.is_whole and bool(self._metadata)

    def take(self, event: str, data: Mapping[str, Any]) -> Delta | None:
        """Add one event; what it says that is worth showing at once. Raises ValueError for one that can't be read."""
        match event:
            case "contentBlockStart":
                return self._start(data)
            case "contentBlockDelta":
                return self._fragment(data)
            case "contentBlockStop":
                self._block(data).is_complete = True
            case "messageStop":
                self._stop = data
                self.is_whole = True
            case "metadata":
                self._metadata = data
        return None

    def body(self, *, is_broken: bool = False) -> dict[str, Any]:
        """The whole as the body of an unstreamed answer; of a broken stream without calls that may be cut."""
        blocks = [block for block in self._blocks.values() if not (is_broken and _is_cut_call(block))]
        content = [made for block in blocks if (made := _whole(block)) is not None]
        usage = self._metadata.get("usage")
        message = {"role": "assistant", "content": content}
        return {"output": {"message": message}, "stopReason": self._stop.get("stopReason"), "usage": usage}

    def _block(self, data: Mapping[str, Any]) -> _Block:
        index = data.get("contentBlockIndex")
        if not isinstance(index, int):
            raise ValueError("a fragment without the index of its block")
        return self._blocks.setdefault(index, _Block())

    def _start(self, data: Mapping[str, Any]) -> Delta | None:
        block = self._block(data)
        block.start = mapping(data.get("start"))
        use = mapping(block.start.get("toolUse"))
        return ToolInputDelta(word_at(use, "toolUseId"), word_at(use, "name"), "") if use else None

    def _fragment(self, data: Mapping[str, Any]) -> Delta | None:
        block = self._block(data)
        for kind, value in mapping(data.get("delta")).items():
            match kind, value:
                case "text", str():
                    block.texts.append(value)
                    return TextDelta(value) if value else None
                case "toolUse", {"input": str() as piece}:
                    return self._arguments(block, piece)
                case "reasoningContent", Mapping():
                    return _thought(block, value)
                case "toolResult", list():
                    block.results.extend(value)
                case "citation", Mapping():
                    block.citations.append(value)
                case _:
                    block.unknown[kind] = value
        return None

    def _arguments(self, block: _Block, piece: str) -> Delta:
        use = mapping(block.start.get("toolUse"))
        if not use:
            raise ValueError("arguments of a call that did not begin")
        block.arguments.append(piece)
        return ToolInputDelta(word_at(use, "toolUseId"), word_at(use, "name"), piece)


def _thought(block: _Block, value: Mapping[str, Any]) -> Delta | None:
    block.signature += word_at(value, "signature")
    if sealed := word_at(value, "redactedContent"):
        block.redacted.append(sealed)
    if not isinstance(text := value.get("text"), str):
        return None
    block.thoughts.append(text)
    return ReasoningDelta(text) if text else None


def _is_cut_call(block: _Block) -> bool:
    return "toolUse" in block.start and not block.is_complete


def _whole(block: _Block) -> dict[str, Any] | None:
    """The block as an unstreamed answer would hold it; None for one that was opened and never filled."""
    if use := mapping(block.start.get("toolUse")):
        return {"toolUse": {**use, "input": _input("".join(block.arguments))}}
    if "toolResult" in block.start or block.results:
        return {"toolResult": {**mapping(block.start.get("toolResult")), "content": _joined(block.results)}}
    if block.redacted:
        return {"reasoningContent": {"redactedContent": _joined_base64(block.redacted)}}
    if block.thoughts or block.signature:
        signed = {"signature": block.signature} if block.signature else {}
        return {"reasoningContent": {"reasoningText": {"text": "".join(block.thoughts), **signed}}}
    if block.citations:
        return {"citationsContent": {"content": [{"text": "".join(block.texts)}], "citations": block.citations}}
    if block.texts:
        return {"text": "".join(block.texts)}
    opened = {kind: value for kind, value in block.start.items() if isinstance(value, Mapping)}
    filled = {kind: {**mapping(opened.get(kind)), **mapping(value)} for kind, value in block.unknown.items()}
    return {**block.unknown, **{kind: value for kind, value in filled.items() if value}} or opened or None


def _input(text: str) -> Any:
    """Arguments as a value; no text is no arguments. A text that is no JSON stays one."""
    if not text:
        return {}
    try:
        return read_mended(text)
    except InvalidInput:
        return text


def _joined(items: list[Any]) -> list[Any]:
    """Items of a result, the fragments of a text made one."""
    out: list[Any] = []
    for item in items:
        if out and _is_text(out[-1]) and _is_text(item):
            out[-1] = {"text": out[-1]["text"] + item["text"]}
        else:
            out.append(item)
    return out


def _is_text(item: Any) -> bool:
    return isinstance(item, dict) and item.keys() == {"text"} and isinstance(item["text"], str)


def _joined_base64(pieces: list[str]) -> str:
    """One base64 text; each piece may have its own padding."""
    if len(pieces) == 1:
        return pieces[0]
    try:
        return base64.b64encode(b"".join(base64.b64decode(piece, validate=True) for piece in pieces)).decode()
    except binascii.Error as error:
        raise ValueError("sealed reasoning that is no base64") from error
