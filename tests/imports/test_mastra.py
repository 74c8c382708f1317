"""Mastra's threads: stores that its own packages made, its JSON, and bodies of its version 1."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest

from memory.access import operator
from memory.imports.sources import lines_in, sources_of
from memory.messages.stored import instant
from memory.models import Thread
from memory.services.importing import ImportReport, import_lines
from memory.store import DjangoStorage
from tests.imports.npm_packages import Packages, installed_packages
from tests.pgrun import postgres

pytestmark = pytest.mark.django_db


# Its rows are of version 1, with a result in a row of its own. Mastra gives that row as a message of its own; here a
# result is kept with its call, so the thread has a message less.
OLD = "old"


class Store:
    """A store at `place`, and what Mastra says is in it."""

    def __init__(self, place: str, said: bytes) -> None:
        self.place, self.said = place, said
        self.threads: list[dict[str, Any]] = msgspec.json.decode(said)["threads"]
        self.old = next(thread for thread in self.threads if thread["id"] == OLD)
        self.alike = [thread for thread in self.threads if thread["id"] != OLD]

    @property
    def message_count(self) -> int:
        return sum(len(thread["messages"]) for thread in self.threads)


@pytest.fixture(scope="module")
def packages() -> Packages:
    return installed_packages("mastra")


@pytest.fixture(scope="module", params=["libsql", "pg"])
def store(
    request: pytest.FixtureRequest, packages: Packages, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    if request.param == "pg":
        with postgres() as url:
            yield Store(url, packages.run("store.mjs", "pg", url))
        return
    path = tmp_path_factory.mktemp("mastra") / "store.db"
    yield Store(str(path), packages.run("store.mjs", "libsql", f"file:{path}"))


def run_import(place: str, **options: Any) -> ImportReport:
    reports = [
        import_lines(source.units, caller=operator("tester"), source=source.name, **{"resource_id": "moved", **options})
        for source in sources_of(place)
    ]
    assert len(reports) == 1
    return reports[0]


def imported_as(thread: dict[str, Any]) -> Thread:
    return Thread.objects.get(imported__line=thread["id"])


def assert_same(thread: dict[str, Any]) -> None:
    """Whether the thread is here as Mastra gave it: order, ids, roles, times and bodies."""
    row = imported_as(thread)
    found = DjangoStorage().load_messages(row.id, None, last=None)
    assert [message["id"] for message in found] == [message["id"] for message in thread["messages"]]
    for mine, theirs in zip(found, thread["messages"], strict=True):
        assert mine["content"] == theirs["content"], theirs["id"]
        assert (mine["role"], mine["createdAt"]) == (theirs["role"], theirs["createdAt"]), theirs["id"]
        assert mine["type"] == theirs.get("type", "text"), theirs["id"]
    assert row.metadata == (thread["metadata"] or {})
    assert row.created_at == instant(thread["createdAt"])
    assert row.message_count == len(thread["messages"])


def assert_same_but_for_results(thread: dict[str, Any]) -> None:
    """As `assert_same` for the thread of version 1: all parts in their order, the call with its result."""
    found = DjangoStorage().load_messages(thread["id"], None, last=None)
    parts = [part for message in thread["messages"] for part in message["content"]["parts"]]
    call, result = [part for part in parts if part["type"] == "tool-invocation"]
    assert (call["toolInvocation"]["state"], result["toolInvocation"]["state"]) == ("call", "result")
    expected = [result if part is call else part for part in parts if part is not result]
    assert [part for message in found for part in message["content"]["parts"]] == expected
    theirs = [message for message in thread["messages"] if message["content"]["parts"] != [result]]
    for name in ("id", "role", "createdAt"):
        assert [message[name] for message in found] == [message[name] for message in theirs]


class TestStores:
    def test_are_imported_whole(self, store: Store) -> None:
        report = run_import(store.place)
        assert report.skipped == []
        assert (report.threads_made, report.messages_added) == (len(store.threads), store.message_count - 1)
        assert Thread.objects.count() == len(store.threads) == 6
        for thread in store.alike:
            assert_same(thread)
        assert_same_but_for_results(store.old)
        by_agent = DjangoStorage().load_messages("agent", None, last=None)
        kinds = {part["type"] for message in by_agent for part in message["content"]["parts"]}
        assert kinds >= {"text", "file", "reasoning", "tool-invocation", "step-start"}
        row = Thread.objects.get(id="agent")
        assert (row.last_provider, row.last_model) == ("anthropic", "claude-opus-4-6")

    def test_again_change_nothing(self, store: Store) -> None:
        run_import(store.place)
        before = list(Thread.objects.order_by("id").values())
        report = run_import(store.place)
        assert (report.threads_made, report.threads_extended, report.messages_added) == (0, 0, 0)
        assert report.unchanged == len(store.threads)
        assert list(Thread.objects.order_by("id").values()) == before

    def test_keep_their_owners_when_asked(self, store: Store) -> None:
        run_import(store.place, keep_owner=True)
        for thread in store.threads:
            assert imported_as(thread).resource_id == thread["resourceId"]

    def test_become_the_resource_s_else(self, store: Store) -> None:
        run_import(store.place)
        assert set(Thread.objects.values_list("resource_id", flat=True)) == {"moved"}

    def test_give_the_same_threads_as_their_json(self, store: Store, tmp_path: Path) -> None:
        path = tmp_path / "threads.json"
        path.write_bytes(store.said)
        assert run_import(str(path)).messages_added == store.message_count
        for thread in store.threads:
            assert_same(thread)
        assert run_import(store.place).unchanged == len(store.alike)

    def test_can_be_ones_that_nobody_may_write_to(self, store: Store) -> None:
        if store.place.startswith("postgresql"):
            with psycopg.connect(store.place, autocommit=True) as connection:
                connection.execute("CREATE ROLE reader LOGIN")
                connection.execute("GRANT SELECT ON mastra_threads, mastra_messages TO reader")
            assert run_import(store.place.replace("//app@", "//reader@")).threads_made == len(store.threads)
            return
        path = Path(store.place)
        before = path.read_bytes()
        path.chmod(stat.S_IRUSR)
        assert run_import(store.place).threads_made == len(store.threads)
        assert path.read_bytes() == before


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A small store with the tables as the packages make them, one thread, and messages without one."""
    path = tmp_path / "small.db"
    with sqlite3.connect(path) as connection:
        connection.execute(
            'CREATE TABLE mastra_threads (id TEXT, "resourceId" TEXT, title TEXT, metadata TEXT, "createdAt" TEXT,'
            ' "updatedAt" TEXT)'
        )
        connection.execute(
            "CREATE TABLE mastra_messages (id TEXT, thread_id TEXT, content TEXT, role TEXT, type TEXT,"
            ' "createdAt" TEXT, "resourceId" TEXT)'
        )
        thread = ("t", "ada", "Tides", '{"a": 1}', "2026-01-01T00:00:00.000Z", "2026-01-01T00:00:00.000Z")
        connection.execute("INSERT INTO mastra_threads VALUES (?, ?, ?, ?, ?, ?)", thread)
    add(path, "m1", "Hello", at=1)
    return path


def add(
    path: Path, id_: str, content: Any, *, at: int, thread: str = "t", role: str = "user", type_: str = "v2"
) -> None:
    text = content if isinstance(content, str) else msgspec.json.encode(content).decode()
    row = (id_, thread, text, role, type_, f"2026-01-01T00:00:{at:02d}.000Z", "ada")
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO mastra_messages VALUES (?, ?, ?, ?, ?, ?, ?)", row)


def body(text: str) -> dict[str, Any]:
    return {"format": 2, "parts": [{"type": "text", "text": text}]}


def shown(thread_id: str) -> list[tuple[str, str, list[Any]]]:
    found = DjangoStorage().load_messages(thread_id, None, last=None)
    return [(m["id"], m["role"], [part.get("text") or part["type"] for part in m["content"]["parts"]]) for m in found]


class TestRows:
    def test_of_version_1_find_the_calls_of_their_results(self, file: Path) -> None:
        call = {"type": "tool-call", "toolCallId": "c1", "toolName": "depth", "args": {"at": "quay"}}
        result = {"type": "tool-result", "toolCallId": "c1", "toolName": "depth", "result": {"metres": 4}}
        add(file, "m2", [{"type": "text", "text": "Wait."}, call], at=2, role="assistant", type_="tool-call")
        add(file, "m3", [result], at=3, role="tool", type_="tool-result")
        add(file, "m4", [{"type": "text", "text": "Four."}], at=4, role="assistant", type_="text")
        assert run_import(str(file)).skipped == []
        assert shown("t") == [
            ("m1", "user", ["Hello"]),
            ("m2", "assistant", ["Wait.", "tool-invocation"]),
            ("m4", "assistant", ["Four."]),
        ]
        invocation = DjangoStorage().load_messages("t", None, last=None)[1]["content"]["parts"][1]["toolInvocation"]
        assert (invocation["state"], invocation["args"], invocation["result"]) == (
            "result",
            {"at": "quay"},
            {"metres": 4},
        )

    def test_that_came_later_extend_their_thread(self, file: Path) -> None:
        run_import(str(file))
        add(file, "m2", body("And now?"), at=5)
        report = run_import(str(file))
        assert (report.threads_extended, report.messages_added, report.threads_made) == (1, 1, 0)
        assert [id_ for id_, _, _ in shown("t")] == ["m1", "m2"]

    def test_that_changed_there_change_here(self, file: Path) -> None:
        run_import(str(file))
        with sqlite3.connect(file) as connection:
            connection.execute("UPDATE mastra_messages SET content = 'Hello again'")
        assert run_import(str(file)).threads_extended == 1
        assert shown("t") == [("m1", "user", ["Hello again"])]

    def test_that_were_changed_here_stay(self, file: Path) -> None:
        run_import(str(file))
        found = DjangoStorage().load_messages("t", None, last=None)
        DjangoStorage(written_by="ada").save_messages("t", None, [{**found[0], "content": body("Mine")}])
        with sqlite3.connect(file) as connection:
            connection.execute("UPDATE mastra_messages SET content = 'Hello again'")
        report = run_import(str(file))
        assert report.skipped == [("t", "1 messages that differ were changed here and stay")]
        assert shown("t") == [("m1", "user", ["Mine"])]

    def test_of_a_thread_that_went_on_here_are_left_out(self, file: Path) -> None:
        run_import(str(file))
        DjangoStorage(written_by="run").save_messages(
            "t", None, [{"id": "own", "role": "user", "content": body("More")}]
        )
        add(file, "m2", body("And now?"), at=5)
        report = run_import(str(file))
        assert report.skipped == [("t", "the thread went on here: 1 new messages are left out")]
        assert [id_ for id_, _, _ in shown("t")] == ["m1", "own"]

    def test_that_can_t_be_stored_are_named_and_stop_nothing(self, file: Path) -> None:
        add(file, "bad", {"format": 2, "parts": [{"type": "text", "text": 7}]}, at=2)
        add(file, "odd", body("?"), at=3, role="narrator")
        add(file, "m2", body("Go on"), at=4)
        add(file, "lone", body("Nobody's"), at=5, thread="lost")
        report = run_import(str(file))
        assert report.skipped == [
            ("bad", "a message is left out: content.parts[0].text: expected a text"),
            ("odd", "a message is left out: unknown role 'narrator'"),
        ]
        assert [id_ for id_, _, _ in shown("t")] == ["m1", "m2"]
        assert [id_ for id_, _, _ in shown("lost")] == ["lone"]

    def test_of_a_taken_thread_are_named(self, file: Path) -> None:
        Thread.objects.create(id="t", resource_id="moved")
        assert run_import(str(file)).skipped == [("t", "the thread id t is taken")]
        assert shown("t") == []

    def test_of_a_system_message_stand_beside_the_thread(self, file: Path) -> None:
        add(file, "m2", body("Be brief."), at=2, role="system")
        run_import(str(file))
        assert Thread.objects.get(id="t").imported["system"] == ["Be brief."]
        assert len(shown("t")) == 1

    def test_of_no_store_are_named(self, tmp_path: Path) -> None:
        path = tmp_path / "other.db"
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE else_ (id TEXT)")
        (why,) = run_import(str(path)).skipped
        assert why == (str(path), "it is no Mastra store: it has no mastra_threads and mastra_messages")


class TestJson:
    def test_of_one_thread_s_messages_needs_no_thread(self, tmp_path: Path) -> None:
        messages = [
            {
                "id": "m2",
                "threadId": "t",
                "role": "assistant",
                "createdAt": "2026-01-01T00:00:02Z",
                "content": body("b"),
            },
            {"id": "m1", "threadId": "t", "role": "user", "createdAt": "2026-01-01T00:00:01Z", "content": body("a")},
        ]
        for number, value in enumerate(({"messages": messages, "total": 2, "hasMore": False}, messages)):
            path = tmp_path / f"{number}.json"
            path.write_bytes(msgspec.json.format(msgspec.json.encode(value)))
            with open(path, "rb") as file:
                assert len(list(lines_in(file))) == 1
        assert run_import(str(tmp_path / "0.json")).threads_made == 1
        assert run_import(str(tmp_path / "1.json")).unchanged == 1
        assert shown("t") == [("m1", "user", ["a"]), ("m2", "assistant", ["b"])]


class TestAddresses:
    def test_are_shown_without_their_password(self) -> None:
        (source,) = sources_of("postgresql://me:hush@127.0.0.1:1/harbour?sslpassword=hush")
        assert source.name == "postgresql://127.0.0.1:1/harbour"
        report = import_lines(source.units, caller=operator("x"), resource_id="ada", source=source.name)
        ((name, why),) = report.skipped
        assert "can't be read" in why
        assert "hush" not in name + why
