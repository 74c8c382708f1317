"""What the ledger grows by with each turn of a long thread, beside the bytes of the messages that the turn adds.

    python -m bench.ledger [--messages 1000] [--turns 40] [--capture full]
    python -m tests.pgrun python -m bench.ledger

The agent sends the whole thread with every turn. Counted are all rows that a turn writes for its run, its events, its
attempts and fragments: on SQLite the bytes of their values, on PostgreSQL what the rows take there, compressed as they
are. The bytes of new messages are those of their contents as they are stored. Bodies `stored as a whole` are what the
same requests would take if each attempt held its own, packed. The goal is at most three times the new messages. At the
end: what keeping a request costs, which is done before the call.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import time
import zlib
from typing import Any

from bench import site
from bench.threads import make_rows, make_text

TABLES = ("memory_run", "memory_runevent", "memory_attempt", "memory_fragment")
GOAL = 3.0


def sizes() -> dict[str, int]:
    """Bytes of the rows of each table of the ledger."""
    from django.db import connection

    found = {}
    with connection.cursor() as cursor:
        for table in TABLES:
            if connection.vendor == "sqlite":
                columns = [column.name for column in connection.introspection.get_table_description(cursor, table)]
                whole = " + ".join(f'coalesce(length(CAST("{name}" AS BLOB)), 0)' for name in columns)
            else:
                whole = "pg_column_size(t.*)"
            cursor.execute(f"SELECT coalesce(sum({whole}), 0) FROM {table} t")
            found[table] = int(cursor.fetchone()[0])
    return found


def reply(chance: random.Random, number: int) -> dict[str, Any]:
    """What Claude answers: now and then after a thought, in some sentences."""
    blocks: list[dict[str, Any]] = []
    if chance.random() < 0.6:
        signature = f"{chance.getrandbits(1024):0256x}"
        blocks.append({"type": "thinking", "thinking": make_text(chance, 15, 50), "signature": signature})
    blocks.append({"type": "text", "text": make_text(chance, 40, 160)})
    usage = {"input_tokens": 200_000, "output_tokens": 200}
    head = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5"}
    return {**head, "content": blocks, "stop_reason": "end_turn", "stop_sequence": None, "usage": usage}


def measure(options: argparse.Namespace, *, clean: bool) -> None:
    import msgspec
    from django.db.models import Sum

    import memory.sandbox
    from memory import queries
    from memory.access import operator
    from memory.models import Attempt, Message, Thread
    from memory.services.runs import GenerateRequest, generate
    from memory.store import DjangoStorage

    sandbox = memory.sandbox.start()
    site_settings().SANDBOX_URL = sandbox.url
    thread_id = "clean" if clean else "foreign"
    Thread.objects.create(id=thread_id, resource_id="bench", title=thread_id)
    rows = [
        {"id": id, "role": role, "content": msgspec.json.decode(text)}
        for id, role, text in make_rows(options.messages, clean=clean)
    ]
    DjangoStorage().save_messages(thread_id, "bench", rows)
    chance = random.Random(thread_id)
    ratios, wholes, rows_of, took = [], [], dict.fromkeys(TABLES, 0), []
    new_bytes = 0
    for turn in range(options.turns + 1):
        sandbox.script("anthropic", body=reply(chance, turn))
        before, said = sizes(), bytes_of(Message.objects.filter(thread=thread_id).aggregate(Sum("byte_count")))
        started = time.perf_counter()
        made = generate(
            operator("bench", "admin"),
            "bench",
            GenerateRequest(messages=make_text(chance, 12, 80), thread_id=thread_id),
        )
        took.append((time.perf_counter() - started) * 1000)
        after = sizes()
        if turn == 0:
            continue  # The first one writes the thread as it was found.
        new = bytes_of(Message.objects.filter(thread=thread_id).aggregate(Sum("byte_count"))) - said
        grown = {table: after[table] - before[table] for table in TABLES}
        rows_of = {table: rows_of[table] + grown[table] for table in TABLES}
        new_bytes += new
        ratios.append(sum(grown.values()) / new)
        sent = queries.attempt_bodies(made.run_id, 1).sent
        assert options.capture != "full" or not sent.problem
        wholes.append(len(zlib.compress(sent.content, 1)))
    sandbox.stop()
    total, turns = sum(rows_of.values()), options.turns
    changes = len(queries.attempts_of(made.run_id)[0].changes)
    print(
        f"{thread_id:8} request {Attempt.objects.order_by('-pk')[0].request_size:,} bytes, changes {changes:,} bytes\n"
        f"  new messages {new_bytes // turns:,} bytes a turn; ledger {total // turns:,}: "
        + ", ".join(f"{table.removeprefix('memory_')} {size // turns:,}" for table, size in rows_of.items())
        + f"\n  {total / new_bytes:.2f} times the new messages (goal {GOAL}), worst turn {max(ratios):.2f};"
        f" bodies stored as a whole would be {statistics.mean(wholes) * turns / new_bytes:.0f} times more\n"
        f"  a turn took {statistics.median(took):.0f} ms in all"
    )


def bytes_of(found: dict[str, Any]) -> int:
    return int(found["byte_count__sum"] or 0)


def site_settings() -> Any:
    from django.conf import settings

    return settings


def keeping(messages: int) -> None:
    """What it costs to keep a request that has grown by two messages, beside packing it as a whole."""
    from django.db import transaction

    from bench.__main__ import TARGETS, loaded, whole
    from memory import bodies
    from memory.fragments import cut

    target, rounds = TARGETS[0], 15
    rows = make_rows(messages + 2 * rounds, clean=True, seed=messages)
    grown = [whole(loaded(rows[: messages + 2 * n]), target) for n in range(rounds)]
    times: dict[str, list[float]] = {"cut and hash": [], "look and write": [], "pack as a whole": []}
    for n, body in enumerate(grown):
        started = time.perf_counter()
        made = cut(body)
        at_cut = time.perf_counter()
        with transaction.atomic():
            bodies.keep(made)
        at_kept = time.perf_counter()
        zlib.compress(body, 1)
        steps = (at_cut - started, at_kept - at_cut, time.perf_counter() - at_kept)
        if n:  # The first one writes it all.
            for name, seconds in zip(times, steps, strict=True):
                times[name].append(seconds * 1000)
    told = ", ".join(f"{name} {statistics.median(values):.2f} ms" for name, values in times.items())
    print(f"{messages} messages, {len(grown[-1]):,} bytes: {told}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--capture", choices=("full", "changes", "off"), default="full")
    options = parser.parse_args()
    with site.environment():
        window = [{"id": "message-history", "options": {"lastMessages": False}}, "provider-history-compat"]
        site.fill(threads=0, rows=[], input_processors=window, output_processors=window[:1], capture=options.capture)
        print(os.environ["DATABASE_URL"].split(":", 1)[0])
        for clean in (True, False):
            measure(options, clean=clean)
        for messages in (100, options.messages):
            keeping(messages)


if __name__ == "__main__":
    main()
