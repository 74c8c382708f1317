"""Many runs at once on one runner, and how quick the dashboard stays meanwhile.

    python -m bench.runs [--runs 500] [--streams 100] [--wait-s 20] [--same-process]

Half of the runs are told by the provider to try again later, some stream, the rest wait for a slow answer; each holds
its HTTP request open. The dashboard is a process of its own, unless it is asked to be the runner's. Its thread list is
asked for one after the other, first without any load and then while the runs go on. With DATABASE_URL set the rows are
there.
"""

from __future__ import annotations

import argparse
import asyncio
import atexit
import os
import time
from collections import Counter
from typing import Any

import httpx
import msgspec

from bench import site
from bench.latency import reply_text
from bench.threads import make_rows
from bench.traffic import Seen, fetch, percentile

EVERY_S = 0.05
IDLE_PAGES = 200


def script(sandbox: str, provider: str, **fields: Any) -> None:
    url = f"{sandbox}/_script"
    httpx.post(url, json={"provider": provider, "times": 10_000, **fields}, trust_env=False).raise_for_status()


def session() -> dict[str, str]:
    """The cookie of an operator who is logged in."""
    from django.contrib.auth import get_user_model
    from django.test import Client

    client = Client()
    client.force_login(get_user_model().objects.get(username="bench"))
    return {"Cookie": "; ".join(f"{name}={morsel.value}" for name, morsel in client.cookies.items())}


async def pages(port: int, headers: dict[str, str], until: Any) -> list[float]:
    """Times of the thread list in ms, until `until(count)` says so."""
    times: list[float] = []
    while not until(len(times)):
        seen = await fetch(port, "GET", "/threads/", headers=headers)
        assert seen.status == 200, seen.headers
        times.append(seen.total_s * 1000)
        await asyncio.sleep(EVERY_S)
    return times


async def load(options: argparse.Namespace, port: int, key: str) -> list[Seen]:
    """All runs at once; how each ended."""
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}

    async def run(number: int) -> Seen:
        asked = {"messages": "And now?", "thread_id": f"t{number}"}
        if number < options.streams:
            path = "/api/agents/bench/stream"
        else:
            path = "/api/agents/bench/generate"
            asked["model"] = "openai/gpt-4o" if number < options.streams + options.runs // 2 else "groq/llama-3.3-70b"
        return await fetch(port, "POST", path, headers=headers, body=msgspec.json.encode(asked))

    return list(await asyncio.gather(*(run(number) for number in range(options.runs))))


async def measure(
    options: argparse.Namespace, ports: tuple[int, int], key: str, cookie: dict[str, str]
) -> tuple[list[float], list[float], list[Seen], float]:
    web, runner = ports
    await pages(web, cookie, lambda count: count >= 30)
    idle = await pages(web, cookie, lambda count: count >= IDLE_PAGES)
    started = time.perf_counter()
    going = asyncio.ensure_future(load(options, runner, key))
    loaded = await pages(web, cookie, lambda _: going.done())
    return idle, loaded, await going, time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--streams", type=int, default=100)
    parser.add_argument("--wait-s", type=int, default=20)
    parser.add_argument("--messages", type=int, default=20, help="messages of each thread")
    parser.add_argument("--same-process", action="store_true", help="the runner serves the dashboard too")
    options = parser.parse_args()
    with site.environment():
        sandbox = site.sandbox()
        atexit.register(sandbox.stop)
        os.environ["COMPAT_ADMIN_SANDBOX_URL"] = sandbox.said
        retry = [{"id": "stream-error-retry-processor", "options": {"max_retries": 3}}]
        processors = {
            "input_processors": ["message-history", "provider-history-compat"],
            "output_processors": ["message-history"],
            "error_processors": retry,
        }
        key = site.fill(threads=options.runs, rows=make_rows(options.messages), **processors)
        cookie = session()
        words = int(options.wait_s / 0.2)
        script(sandbox.said, "anthropic", status=200, body=reply_text(words), pace_s=0.2)
        waiting = {"status": 429, "headers": {"retry-after": str(options.wait_s)}}
        script(sandbox.said, "openai", **waiting, times=options.runs // 2)
        script(sandbox.said, "groq", delay_s=options.wait_s)
        runner, runner_port = site.serve("runner")
        web, web_port = (runner, runner_port) if options.same_process else site.serve("web")
        try:
            found = asyncio.run(measure(options, (web_port, runner_port), key, cookie))
            report(options, *found, peak_mb=runner.peak_mb, cpu_s=runner.cpu_s)
        finally:
            for process in {web, runner}:
                process.stop()
            sandbox.stop()


def report(
    options: argparse.Namespace,
    idle: list[float],
    loaded: list[float],
    runs: list[Seen],
    took_s: float,
    *,
    peak_mb: float,
    cpu_s: float,
) -> None:
    print(f"{options.runs} runs at once, {options.runs // 2} of them told to wait {options.wait_s} s, ", end="")
    print(f"{options.streams} streaming; over after {took_s:.0f} s")
    print(f"{'thread list, ms':20}{'pages':>8}{'p50':>8}{'p90':>8}{'p99':>8}")
    for name, times in (("idle", idle), ("with the runs", loaded)):
        shares = "".join(f"{percentile(times, share):8.1f}" for share in (0.5, 0.9, 0.99))
        print(f"{name:20}{len(times):8}{shares}")
    print(f"p99 with the runs / idle: {percentile(loaded, 0.99) / percentile(idle, 0.99):.2f}")
    print(f"answers by status: {dict(Counter(seen.status for seen in runs))}")
    ended = sum(b'"status":"succeeded"' in seen.body for seen in runs)
    print(f"succeeded: {ended}; runner: most memory {peak_mb:.0f} MB, processor time {cpu_s:.0f} s")


if __name__ == "__main__":
    main()
