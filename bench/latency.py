"""What a streamed call costs that goes through us, beside the same call made directly, in one run.

    python -m bench.latency [--streams 50] [--calls 400] [--messages 100] [--words 100] [--pace 30]

So many streams are open at any time; every fifth call goes to the provider directly, with the bytes that we would send.
Each of ours recalls a thread, runs all passes, writes the ledger and saves the turn. Added latency is the time until
something came, less the median of the direct calls: the first byte, which of ours says that the run is on record, and
the first word of the provider's. With DATABASE_URL set the rows are there.

Beside it stands how long the plain mapping of 1,000 messages takes (`bench.limits`), before and after: times depend on
the machine and on the minute, so they are to be compared as multiples of it.
"""

from __future__ import annotations

import argparse
import asyncio
import atexit
import os
import random
import statistics
import time
from operator import attrgetter

import httpx
import msgspec

from bench import site
from bench.limits import anthropic
from bench.threads import make_rows
from bench.traffic import Seen, fetch, percentile

_LIMIT_ROUNDS = 15


def reply_text(words: int) -> str:
    """A stream of Anthropic's with so many pieces of text."""
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "content": []}
    usage = {"input_tokens": 9, "output_tokens": 1}
    block = {"type": "text", "text": ""}
    events = [
        {"type": "message_start", "message": {**message, "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        *(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": f"word{n} "}}
            for n in range(words)
        ),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": words}},
        {"type": "message_stop"},
    ]
    return "".join(f"event: {event['type']}\ndata: {msgspec.json.encode(event).decode()}\n\n" for event in events)


def sent_request(port: int, headers: dict[str, str], thread_id: str) -> tuple[dict[str, str], bytes]:
    """Headers and body of the call that a turn of the thread makes."""
    asked = {"messages": "And now?", "stream": True, "thread_id": thread_id}
    answer = httpx.post(
        f"http://127.0.0.1:{port}/api/agents/bench/prepare", json=asked, headers=headers, trust_env=False
    ).raise_for_status()
    request = msgspec.json.decode(answer.content, type=_Prepared).prepared.request
    return {**request.headers, "x-api-key": "any"}, bytes(request.body)


def limit_ms() -> float:
    """What the plain mapping of 1,000 messages takes at this minute."""
    rows, times = make_rows(1000), []
    for _ in range(_LIMIT_ROUNDS):
        started = time.process_time()
        anthropic(rows)
        times.append((time.process_time() - started) * 1000)
    return statistics.median(times)


async def measure(
    options: argparse.Namespace,
    port: int,
    sandbox_port: int,
    ours: dict[str, str],
    sent: tuple[dict[str, str], bytes],
) -> tuple[list[Seen], list[Seen]]:
    free = [f"t{number}" for number in range(options.streams * 2)]
    random.shuffle(free)
    through: list[Seen] = []
    direct: list[Seen] = []
    left = iter(range(options.calls))

    async def worker(number: int) -> None:
        await asyncio.sleep(number / options.streams * options.words * options.pace / 1000)
        for call in left:
            if call % 5 == 0:
                seen = await fetch(
                    sandbox_port,
                    "POST",
                    "/anthropic/v1/messages",
                    headers=sent[0],
                    body=sent[1],
                    marker=b"text_delta",
                )
                direct.append(seen)
            else:
                thread_id = free.pop(0)
                body = msgspec.json.encode({"messages": "And now?", "thread_id": thread_id})
                seen = await fetch(
                    port, "POST", "/api/agents/bench/stream", headers=ours, body=body, marker=b"event: text-delta"
                )
                through.append(seen)
                free.append(thread_id)
            assert seen.status == 200, seen.body

    await asyncio.gather(*(worker(number) for number in range(options.streams)))
    return through, direct


class _Request(msgspec.Struct):
    headers: dict[str, str]
    body: msgspec.Raw


class _Shown(msgspec.Struct):
    request: _Request


class _Prepared(msgspec.Struct):
    prepared: _Shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", type=int, default=50)
    parser.add_argument("--calls", type=int, default=400)
    parser.add_argument("--messages", type=int, default=100)
    parser.add_argument("--words", type=int, default=100)
    parser.add_argument("--pace", type=float, default=30.0, help="ms between two pieces")
    parser.add_argument("--clean", action="store_true", help="threads in which no rule finds anything")
    options = parser.parse_args()
    with site.environment():
        sandbox = site.sandbox()
        atexit.register(sandbox.stop)
        os.environ["COMPAT_ADMIN_SANDBOX_URL"] = sandbox.said
        key = site.fill(threads=options.streams * 2 + 1, rows=make_rows(options.messages - 2, clean=options.clean))
        sandbox_port = int(sandbox.said.rsplit(":", 1)[1])
        script = {
            "provider": "anthropic",
            "times": 10_000,
            "body": reply_text(options.words),
            "pace_s": options.pace / 1000,
        }
        httpx.post(f"{sandbox.said}/_script", json={**script, "status": 200}, trust_env=False).raise_for_status()
        ours = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        limits = [limit_ms()]
        runner, port = site.serve("runner")
        try:
            warm = argparse.Namespace(**{**vars(options), "calls": options.streams * 2})
            sent = sent_request(port, ours, f"t{options.streams * 2}")
            asyncio.run(measure(warm, port, sandbox_port, ours, sent))
            cpu = runner.cpu_s
            through, direct = asyncio.run(measure(options, port, sandbox_port, ours, sent))
            cpu = runner.cpu_s - cpu
            peak_mb = runner.peak_mb
        finally:
            runner.stop()
            sandbox.stop()
        limits.append(limit_ms())
    report(options, through, direct, limits)
    print(f"processor time: {cpu / len(through) * 1000:.1f} ms a call; most memory: {peak_mb:.0f} MB")


def report(options: argparse.Namespace, through: list[Seen], direct: list[Seen], limits: list[float]) -> None:
    print(f"{options.streams} streams at once, {len(through)} calls through us, {len(direct)} direct")
    print(f"thread of {options.messages} messages, {options.words} pieces of text {options.pace:.0f} ms apart")
    print(f"{'ms':36}{'p50':>8}{'p90':>8}{'p99':>8}")
    limit = statistics.mean(limits)
    multiples = []
    for name, instant in (("first byte", attrgetter("first_byte_s")), ("first word", attrgetter("marker_s"))):
        base = percentile([instant(seen) for seen in direct], 0.5)
        for whose, calls in (("added", through), ("direct calls themselves", direct)):
            ms = [(instant(seen) - base) * 1000 for seen in calls]
            print(f"{name + ', ' + whose:36}" + "".join(f"{percentile(ms, share):8.1f}" for share in (0.5, 0.9, 0.99)))
            if calls is through:
                multiples.append(f"{name} {percentile(ms, 0.5) / limit:.2f} and {percentile(ms, 0.99) / limit:.2f}")
    longer = percentile([s.total_s for s in through], 0.5) - percentile([s.total_s for s in direct], 0.5)
    print(f"whole stream, added at the median: {longer * 1000:.0f} ms")
    print(f"plain mapping of 1,000 messages: {limits[0]:.1f} and {limits[1]:.1f} ms")
    print(f"added, in these, p50 and p99: {', '.join(multiples)}")


if __name__ == "__main__":
    main()
