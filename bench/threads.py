"""Stored messages as agents leave them: questions, answers, tool calls with results, reasoning now and then."""

from __future__ import annotations

import random

import msgspec

WORDS = ["parcel", "order", "harbour", "tide", "window", "refund", "invoice", "station", "timetable", "kettle", "lamp"]
MAKERS = ("toolu_{}", "call_{}", "functions.lookup:{}")


Row = tuple[str, str, bytes]
"""Id, role and content text of a message, as a database gives them."""


def make_rows(count: int, *, clean: bool = False, seed: int = 7) -> list[Row]:
    """`count` messages. `clean`: nothing that Claude would refuse."""
    chance = random.Random(seed)
    return [_row(number, chance, clean) for number in range(count)]


def _text(chance: random.Random, least: int, most: int) -> str:
    return " ".join(chance.choice(WORDS) for _ in range(chance.randint(least, most))).capitalize() + "."


def _row(number: int, chance: random.Random, clean: bool) -> Row:
    if number % 2 == 0:
        content: dict[str, object] = {"format": 2, "parts": [{"type": "text", "text": _text(chance, 5, 60)}]}
        return f"m{number}", "user", msgspec.json.encode(content)
    parts: list[dict[str, object]] = []
    if not clean and number % 5 == 0:
        thought = _text(chance, 20, 80)
        parts.append({"type": "reasoning", "reasoning": thought, "details": [{"type": "text", "text": thought}]})
    for call in range(chance.choice((0, 0, 1, 1, 2))):
        maker = MAKERS[0] if clean else chance.choice(MAKERS)
        rows = [{"name": _text(chance, 2, 5), "price": chance.randint(1, 10**6), "ok": True} for _ in range(12)]
        invocation = {
            "state": "result",
            "toolCallId": maker.format(f"{number}{call}"),
            "toolName": "lookup",
            "args": {"query": _text(chance, 2, 8), "limit": 12},
            "result": {"rows": rows},
        }
        parts.append({"type": "tool-invocation", "toolInvocation": invocation})
    parts += [{"type": "step-start"}] if parts else []
    parts.append({"type": "text", "text": _text(chance, 20, 160)})
    stamp = {"provider": "anthropic", "protocol": "anthropic-messages", "modelId": "claude-sonnet-4-5"}
    content = {"format": 2, "parts": parts, "metadata": stamp}
    return f"m{number}", "assistant", msgspec.json.encode(content)
