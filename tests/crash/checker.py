"""Judges the ledger from outside: by what the pretend providers received, and what the API tells. It knows no rows."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import msgspec

ENDED = {"succeeded", "waiting", "failed", "stopped", "cancelled", "interrupted"}


class Arrival(msgspec.Struct):
    """A request as the sandbox lists it."""

    body: msgspec.Raw
    headers: dict[str, str]
    size_bytes: int
    status: int | None
    drop: str | None

    @property
    def is_whole(self) -> bool:
        """Whether its sender lived long enough to send all of it."""
        return {name.lower(): value for name, value in self.headers.items()}["content-length"] == str(self.size_bytes)

    @property
    def sha256(self) -> str:
        return hashlib.sha256(bytes(self.body)).hexdigest()


class Checker:
    """What is wrong with the runs and threads that an API shows, as sentences; none where all is well."""

    def __init__(self, api: httpx.Client, sandbox_url: str) -> None:
        self.api = api
        raw = httpx.get(f"{sandbox_url}/_requests", trust_env=False, timeout=60).content
        self.arrivals = [one for one in msgspec.json.decode(raw, type=list[Arrival]) if one.is_whole]
        self.runs: dict[str, dict[str, Any]] = {
            item["id"]: self._get(f"/runs/{item['id']}") for item in self._all("/runs")
        }
        self.threads: dict[str, list[dict[str, Any]]] = {
            item["id"]: list(self._all(f"/threads/{item['id']}/messages", after=0)) for item in self._all("/threads")
        }

        self.writers: dict[str, list[str]] = {}
        for run in self.runs.values():
            for message_id in run["message_ids"]:
                self.writers.setdefault(message_id, []).append(run["id"])

    def problems(self, acknowledged: Mapping[str, str | None]) -> list[str]:
        """`acknowledged` are the runs that callers know of, each with the answer that they got, if they got one."""
        return [
            *self._of_acknowledged(acknowledged),
            *(f"{run['id']} ({run['status']}): {wrong}" for run in self.runs.values() for wrong in self._of_run(run)),
            *(f"{thread_id}: {wrong}" for thread_id, rows in self.threads.items() for wrong in self._of_thread(rows)),
            *self._of_requests(),
        ]

    def _get(self, path: str, **query: Any) -> Any:
        answer = self.api.get(path, params=query)
        assert answer.status_code == 200, (path, answer.text)
        return answer.json()

    def _all(self, path: str, **query: Any) -> Iterator[dict[str, Any]]:
        page = self._get(path, limit=100, **query)
        yield from page["items"]
        while page["next_cursor"]:
            page = self._get(path, limit=100, cursor=page["next_cursor"])
            yield from page["items"]

    def _of_acknowledged(self, acknowledged: Mapping[str, str | None]) -> Iterator[str]:
        for run_id, text in acknowledged.items():
            run = self.runs.get(run_id)
            if run is None:
                yield f"{run_id} was acknowledged and is gone"
            elif text is not None and (run["status"] != "succeeded" or self._answer(run) != text):
                yield f"{run_id} was answered with {text!r}, and is {run['status']} with {self._answer(run)!r}"

    def _of_run(self, run: dict[str, Any]) -> Iterator[str]:
        attempts = run["attempts"]
        if run["status"] not in ENDED or run["finished_at"] is None:
            yield "it never ended"
        if [attempt["number"] for attempt in attempts] != list(range(1, run["attempt_count"] + 1)):
            yield f"{run['attempt_count']} attempts, numbered {[attempt['number'] for attempt in attempts]}"
        decisions = [attempt["decision"] for attempt in attempts]
        if "open" in decisions:
            yield "an attempt is open"
        if run["status"] in ("succeeded", "waiting") and decisions.count("answered") != 1:
            yield f"decisions {decisions}"
        there = {row["id"] for row in self.threads.get(run["thread_id"], [])}
        if missing := [message_id for message_id in run["message_ids"] if message_id not in there]:
            yield f"it says it wrote {missing}, and the thread has no such message"
        if run["status"] == "succeeded" and len(run["message_ids"]) < 2:
            yield f"it says it wrote {run['message_ids']}"
        yield from self._of_events(run)

    def _of_events(self, run: dict[str, Any]) -> Iterator[str]:
        told = self.api.get(f"/runs/{run['id']}/events").text
        numbers = [int(number) for number in re.findall(r"^id: (\d+)$", told, re.M)]
        if numbers != sorted(set(numbers)):
            yield f"its events are numbered {numbers}"
        said = told.rstrip().rpartition('data: {"status":"')[2].rstrip('"}')
        # Once its results have come, a run that waited for them is over.
        if said != run["status"] and (said, run["status"]) != ("waiting", "succeeded"):
            yield f"its events say that it ended as {said}"

    def _of_thread(self, rows: list[dict[str, Any]]) -> Iterator[str]:
        for what, values in (
            ("id", [row["id"] for row in rows]),
            ("question", [_text(row) for row in rows if row["role"] == "user"]),
        ):
            if twice := [value for value, count in Counter(values).items() if count > 1]:
                yield f"the {what} {twice[0]!r} is there twice"
        for before, row in zip([None, *rows], rows, strict=False):
            writers = self.writers.get(row["id"], [])
            if not writers:
                yield f"#{row['seq']} is on no run's record"
            elif row["role"] == "assistant":
                yield from self._of_answer(before, row, self.runs[writers[0]])

    def _of_answer(self, before: dict[str, Any] | None, row: dict[str, Any], run: dict[str, Any]) -> Iterator[str]:
        if before is None or before["role"] != "user" or before["id"] not in run["message_ids"]:
            yield f"#{row['seq']} answers something else than its run's question"
        is_incomplete = bool(row["content"].get("metadata", {}).get("incomplete"))
        is_answered = any(attempt["decision"] == "answered" for attempt in run["attempts"])
        if is_incomplete == is_answered:
            yield f"#{row['seq']} is {'in' * is_incomplete}complete, and its run {run['status']}"

    def _of_requests(self) -> Iterator[str]:
        received = Counter(arrival.sha256 for arrival in self.arrivals)
        attempts = [attempt for run in self.runs.values() for attempt in run["attempts"]]
        on_record = Counter(attempt["request"]["sha256"] for attempt in attempts)
        if missing := received - on_record:
            such = [bytes(one.body)[-300:] for one in self.arrivals if one.sha256 in missing]
            yield f"{missing.total()} requests were received that are on no record: {such}"
        unheard = on_record - received
        lost = Counter(
            attempt["request"]["sha256"]
            for attempt in attempts
            if attempt["decision"] in ("interrupted", "cancelled") or attempt["error_class"] == "connection"
        )
        if untrue := unheard - lost:
            yield f"{untrue.total()} attempts are on record that nobody received"
        answered = Counter(arrival.sha256 for arrival in self.arrivals if arrival.status == 200)
        said = Counter(attempt["request"]["sha256"] for attempt in attempts if attempt["decision"] == "answered")
        if untrue := said - answered:
            yield f"{untrue.total()} attempts are answered on record that no provider answered"

    def _answer(self, run: dict[str, Any]) -> str:
        rows = self.threads.get(run["thread_id"], [])
        return "".join(_text(row) for row in rows if row["id"] in run["message_ids"] and row["role"] == "assistant")


def _text(row: dict[str, Any]) -> str:
    return "".join(part.get("text", "") for part in row["content"]["parts"] if part.get("type") == "text")
