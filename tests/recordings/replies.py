"""What a reply says, looked for in the request that a mature client sent after it."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from memory.messages.prompt import Reasoning, Text, ToolCall
from memory.providers.wire import Reply

Fact = tuple[str, str]

# The recordings' own spelling of these characters in JSON bodies; streams are left as they were.
_PLAIN = {"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "—": "-", "‑": "-", "…": "..."}
_TYPOGRAPHY = str.maketrans(_PLAIN)


def followers(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The requests that continue an exchange, by its id."""
    out: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_bytes().splitlines():
            exchange = msgspec.json.decode(line)
            if exchange.get("continues") and exchange["request"]:
                out.setdefault(exchange["continues"], []).append(exchange)
    return out


def facts_of(reply: Reply) -> Iterator[Fact]:
    """Every text, call id, name, argument and signature of a reply."""
    for part in reply.parts:
        match part:
            case Text(text=text) if text.strip():
                yield "text", _squeezed(text)
            case Reasoning(options=options):
                anthropic = (options or {}).get("anthropic") or {}
                for key in ("signature", "redactedData"):
                    if anthropic.get(key):
                        yield "signature", anthropic[key]
            case ToolCall():
                yield "id", part.id
                yield "name", part.name
                yield "arguments", _arguments(part.input)


def missing(reply: Reply, request: Mapping[str, Any]) -> list[Fact]:
    """The facts of a reply that a request does not hold."""
    sent = list(_facts(request["messages"]))
    texts = "".join(text for kind, text in sent if kind == "text")
    known = set(sent)
    return [fact for fact in facts_of(reply) if not (fact in known or (fact[0] == "text" and fact[1] in texts))]


def _facts(value: Any) -> Iterator[Fact]:
    if isinstance(value, list):
        for item in value:
            yield from _facts(item)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _fact(key, item)


def _fact(key: str, item: Any) -> Iterator[Fact]:
    if key in ("input", "arguments"):
        yield "arguments", _arguments(item)
    elif not isinstance(item, str):
        yield from _facts(item)
    elif key in ("content", "text"):
        yield "text", _squeezed(item)
    elif key in ("id", "name"):
        yield key, item
    elif key in ("signature", "data"):
        yield "signature", item


def _arguments(value: Any) -> str:
    if isinstance(value, str):
        try:
            value = msgspec.json.decode(value)
        except msgspec.DecodeError:
            return value
    return _squeezed(msgspec.json.encode(value, order="sorted").decode())


def _squeezed(text: str) -> str:
    """White space and typographic characters say nothing here."""
    return "".join(unicodedata.normalize("NFKC", text.translate(_TYPOGRAPHY)).split())
