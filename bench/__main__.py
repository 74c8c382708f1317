"""How long the way from stored text to request bytes takes, beside the least it could take, in one run.

    python -m bench [--messages 1000] [--rounds 15]

A limit decodes, maps and encodes row by row and checks nothing (`bench.limits`); beside the one of its own shape each
protocol is held against the one of Anthropic's. Ratios are medians of the ratios of each round; times are of the
processor and say little: they differ from machine to machine.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable
from typing import Any

from bench.limits import LIMITS, anthropic
from bench.threads import Row, make_rows
from memory.messages.convert import to_prompt
from memory.messages.names import ModelRef
from memory.messages.stored import RowContent, StoredMessage
from memory.processors import Switches
from memory.processors.compat.passes import CATALOGUE
from memory.processors.compat.processor import run_steps
from memory.profiles import profile_for
from memory.providers import wire_module
from memory.providers.wire import Settings

Work = tuple[Callable[[], Any], Callable[[Any], Any]]
"""What is made before the clock starts, and what is done with it."""

TARGETS = (
    ("anthropic", "anthropic-messages", "claude-sonnet-4-5"),
    ("openai", "openai-chat", "gpt-4o"),
    ("openai", "openai-responses", "gpt-5"),
    ("gemini", "gemini-contents", "gemini-2.5-pro"),
    ("bedrock", "bedrock-converse", "anthropic.claude-sonnet-4-5-20250929-v1:0"),
    ("cohere", "cohere-v2", "command-a-03-2025"),
)


def whole(messages: list[StoredMessage], target: tuple[str, str, str]) -> bytes:
    """The way of a run: its list's messages to a prompt, all passes, the wire."""
    provider, protocol, model_id = target
    profile = profile_for(ModelRef(provider, model_id), protocol)
    prompt, *_ = run_steps(CATALOGUE, to_prompt(messages), profile, Switches())
    return wire_module(protocol).encode_request(prompt, Settings(model_id=model_id), provider=provider).body


def loaded(rows: list[Row]) -> list[StoredMessage]:
    """Rows as a store loads them: nothing of their text is read."""
    return [{"id": id, "role": role, "content": RowContent(text)} for id, role, text in rows]


def ratio(one: Work, other: Work, rounds: int) -> tuple[float, float, float]:
    """Median time of both in ms and the median of their ratios, measured in turn. Each begins with something fresh."""
    times: list[tuple[float, float]] = []
    for _ in range(rounds):
        pair = []
        for make, work in (one, other):
            given = make()
            gc.collect()
            started = time.process_time()
            work(given)
            pair.append((time.process_time() - started) * 1000)
        times.append((pair[0], pair[1]))
    ratios = [a / b for a, b in times]
    return statistics.median(a for a, _ in times), statistics.median(b for _, b in times), statistics.median(ratios)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    rows = make_rows(options.messages)
    size = sum(len(text) for _, _, text in rows) / 1000
    print(f"{options.messages} messages, {size:,.0f} KB, {options.rounds} rounds")
    print(f"{'work':50}{'ms':>8}{'limit ms':>10}{'ratio':>8}{'to Anthropic':>15}")
    for target in TARGETS:
        ours: Work = (lambda: loaded(rows), lambda messages, target=target: whole(messages, target))
        took, least, times = ratio(ours, (lambda: rows, LIMITS[target[1]]), options.rounds)
        # With the same neighbour in each round: what ran before leaves its mark on memory.
        *_, others = ratio(ours, (lambda: rows, anthropic), options.rounds)
        print(f"{'stored text -> request, ' + target[1]:50}{took:8.2f}{least:10.2f}{times:8.2f}{others:15.2f}")
    profile = profile_for(ModelRef("anthropic", "claude-sonnet-4-5"))
    clean = to_prompt(loaded(make_rows(options.messages, clean=True)))

    def one_pass(_: None) -> Any:
        return clean.map_parts(lambda _message, part: part)

    def all_passes(_: None) -> Any:
        return run_steps(CATALOGUE, clean, profile, Switches())

    assert all_passes(None)[0] is clean
    took, least, times = ratio((lambda: None, all_passes), (lambda: None, one_pass), options.rounds)
    print(f"{'all passes, nothing to change / one plain pass':50}{took:8.2f}{least:10.2f}{times:8.2f}")


if __name__ == "__main__":
    main()
