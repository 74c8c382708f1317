"""Messages as agents of three providers leave them in turn: questions, answers, reasoning, calls with results."""

from __future__ import annotations

import random
from typing import Any

import msgspec

Row = tuple[str, str, bytes]
"""Id, role and content text of a message, as a database gives them."""

WORDS = ["parcel", "order", "harbour", "tide", "window", "refund", "invoice", "station", "timetable", "kettle", "lamp"]
WORDS += [
    "the",
    "a",
    "to",
    "of",
    "when",
    "which",
    "because",
    "then",
    "ask",
    "find",
    '"express"',
    "naïve",
    "Zürich",
    "東京",
]
_STAMPS = (("anthropic", "claude-sonnet-4-5"), ("openai", "gpt-5"), ("cerebras", "zai-glm-4.7"))
_SHARES = (60, 25, 15)


def make_rows(count: int, *, clean: bool = False, seed: int = 7) -> list[Row]:
    """`count` messages, a question and an answer in turn. `clean`: nothing that Claude would refuse."""
    chance = random.Random(seed)
    return [
        (f"m{number}", "assistant", msgspec.json.encode(_answer(number, chance, clean)))
        if number % 2
        else (f"m{number}", "user", msgspec.json.encode(_question(chance)))
        for number in range(count)
    ]


def make_text(chance: random.Random, least: int, most: int) -> str:
    return " ".join(chance.choices(WORDS, k=chance.randint(least, most)))


def _question(chance: random.Random) -> dict[str, Any]:
    text = make_text(chance, 12, 80)
    return {"format": 2, "parts": [{"type": "text", "text": text}], "content": text}


def _answer(number: int, chance: random.Random, clean: bool) -> dict[str, Any]:
    provider, model_id = chance.choices(_STAMPS, _SHARES)[0] if not clean else _STAMPS[0]
    parts: list[dict[str, Any]] = [{"type": "step-start"}]
    if chance.random() < 0.6:
        parts.append(_thought(number, chance, provider))
    if chance.random() < 0.35:
        calls = 1 if chance.random() < 0.7 else chance.randint(2, 3)
        parts += [_call(f"{number}{call}", chance, provider) for call in range(calls)]
        parts.append({"type": "step-start"})
    answer: dict[str, Any] = {"type": "text", "text": make_text(chance, 40, 160)}
    if provider == "openai":
        answer["providerMetadata"] = {"openai": {"itemId": f"msg_{number}"}}
    parts.append(answer)
    metadata = {"provider": provider, "modelId": model_id}
    return {"format": 2, "parts": parts, "content": answer["text"], "metadata": metadata}


def _thought(number: int, chance: random.Random, provider: str) -> dict[str, Any]:
    text = make_text(chance, 15, 50)
    part: dict[str, Any] = {"type": "reasoning", "reasoning": "", "details": [{"type": "text", "text": text}]}
    if provider == "anthropic":
        part["providerMetadata"] = {"anthropic": {"signature": f"{chance.getrandbits(1024):0256x}"}}
    elif provider == "openai":
        part["providerMetadata"] = {"openai": {"itemId": f"rs_{number}", "reasoningEncryptedContent": None}}
    return part


def _call(number: str, chance: random.Random, provider: str) -> dict[str, Any]:
    # Some of Cerebras' ids hold characters that others refuse.
    call_id = f"functions.lookup:{number}" if provider == "cerebras" else f"toolu_{number}"
    rows = [
        {"id": chance.randint(1, 10**6), "title": make_text(chance, 3, 8), "score": round(chance.random(), 4)}
        for _ in range(chance.randint(2, 8))
    ]
    invocation = {
        "state": "result",
        "toolCallId": call_id,
        "toolName": chance.choice(("lookup", "read_file", "create_ticket")),
        "args": {"query": make_text(chance, 3, 10), "limit": chance.randint(1, 50)},
        "result": {"ok": True, "rows": rows},
    }
    return {"type": "tool-invocation", "toolInvocation": invocation}
