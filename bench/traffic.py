"""A light HTTP client for many streams at once: when the first byte came, when a marker, how many bytes and when."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from msgspec import Struct


class Seen(Struct):
    """An answer as it came in. Times are seconds after the request was sent."""

    status: int = 0
    headers: str = ""
    first_byte_s: float = 0.0
    marker_s: float = 0.0
    total_s: float = 0.0
    body: bytes = b""


async def fetch(
    port: int,
    method: str,
    path: str,
    *,
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
    marker: bytes = b"",
) -> Seen:
    """One request over a connection of its own, read to its end. `marker` is looked for in the body."""
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", "Connection: close", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    seen, came, started = Seen(), b"", time.perf_counter()
    try:
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        while piece := await reader.read(1 << 16):
            now = time.perf_counter() - started
            seen.first_byte_s = seen.first_byte_s or now
            came += piece
            if marker and not seen.marker_s and marker in came:
                seen.marker_s = now
        seen.total_s = time.perf_counter() - started
    finally:
        writer.close()
    head, _, seen.body = came.partition(b"\r\n\r\n")
    seen.headers = head.decode("latin-1")
    seen.status = int(seen.headers.split(" ", 2)[1]) if seen.headers else 0
    return seen


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")
