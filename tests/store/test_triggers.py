"""History keeps itself: what leaves a version, what leaves none, and that the triggers outlive migrations."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connection, migrations, models
from django.db.migrations.executor import MigrationExecutor
from django.db.models.signals import post_migrate, pre_migrate

from memory import triggers
from memory.errors import NotFound
from memory.models import AuditEvent, Message, MessageVersion, Thread
from memory.store import DjangoStorage
from tests.make import add_messages, make_thread, message, of, text, tool_call

ALIAS = "default"


def versions() -> list[tuple[int, str, str]]:
    return list(MessageVersion.objects.order_by("id").values_list("version", "written_by", "content"))


def only_message() -> Message:
    return Message.objects.get()


@pytest.mark.django_db
class TestVersions:
    def test_a_turn_saved_step_by_step_leaves_none(self) -> None:
        thread = make_thread()
        step = {"type": "text", "text": "one"}
        add_messages(thread, message(step, id="a"), close=False)
        add_messages(thread, message(step, {"type": "text", "text": "two"}, id="a"), close=False)
        add_messages(thread, message(step, {"type": "text", "text": "three"}, id="a"))
        assert versions() == []
        row = only_message()
        assert (row.version, row.is_open, row.summary[1][0]) == (1, False, "text")
        assert "three" in row.content

    def test_a_waiting_call_stays_open_until_its_answer_comes(self) -> None:
        thread = make_thread()
        add_messages(thread, message(tool_call(), id="a"))
        assert only_message().is_open
        add_messages(thread, message(tool_call(state="result", result=1), id="a"))
        assert not only_message().is_open
        assert versions() == []

    def test_a_call_that_the_provider_runs_does_not_keep_a_message_open(self) -> None:
        thread = make_thread()
        add_messages(thread, message({**tool_call(), "providerExecuted": True}))
        assert not only_message().is_open

    def test_a_closed_message_never_opens_again(self) -> None:
        thread = make_thread()
        add_messages(thread, text("hello", id="a"))
        add_messages(thread, message(tool_call(), id="a"), close=False)
        assert not only_message().is_open
        assert [version for version, _, _ in versions()] == [1]

    def test_later_messages_close_earlier_ones(self) -> None:
        thread, other = make_thread(), make_thread()
        add_messages(thread, message(tool_call(), id="a"))
        add_messages(other, message(tool_call(), id="a"))
        add_messages(thread, text("never mind", id="b"))
        assert list(Message.objects.filter(is_open=True).values_list("thread_id", flat=True)) == [other.id]

    def test_an_answer_saved_together_with_the_next_message_leaves_none(self) -> None:
        thread = make_thread()
        add_messages(thread, message(tool_call(), id="a"))
        add_messages(thread, message(tool_call(state="result", result=1), id="a"), text("thanks", id="b"))
        assert versions() == []
        assert not Message.objects.filter(is_open=True).exists()

    def test_a_repair_leaves_exactly_one_with_author_and_reason(self) -> None:
        thread = make_thread()
        add_messages(thread, message(tool_call("call:1.a", "result", result=1), id="a"), text("fine", id="b"))
        before = Message.objects.get(message_id="a")
        repaired = message(tool_call("call_1_a", "result", result=1), id="a")
        unchanged = {"id": "b", "role": "user", "content": {"format": 2, "parts": [{"type": "text", "text": "fine"}]}}
        storage = DjangoStorage(written_by="Agent", run_id="run-1")
        count = storage.repair_messages(of(thread, repaired, unchanged), rule="some-rule", reason="refused ids")
        assert count == 1
        assert versions() == [(1, "tester", before.content)]
        after = Message.objects.get(message_id="a")
        assert "call_1_a" in after.content
        assert (after.version, after.written_by, after.reason, after.rule, after.run_id) == (
            2,
            "Agent",
            "refused ids",
            "some-rule",
            "run-1",
        )
        event = AuditEvent.objects.get()
        assert (event.actor, event.action, event.target_id) == ("Agent", "messages.repaired", thread.id)
        assert event.detail["message_ids"] == ["a"]

    def test_a_repair_of_an_open_message_has_a_way_back_and_leaves_it_open(self) -> None:
        thread = make_thread()
        add_messages(thread, message(tool_call("call:1"), id="a"))
        DjangoStorage().repair_messages(of(thread, message(tool_call("call_1"), id="a")), rule="r", reason="x")
        assert [version for version, _, _ in versions()] == [1]
        assert only_message().is_open

    def test_a_repair_without_a_difference_writes_nothing(self) -> None:
        thread = make_thread()
        same = text("fine", id="a")
        add_messages(thread, same)
        assert DjangoStorage().repair_messages(of(thread, same), rule="r", reason="x") == 0
        assert (versions(), AuditEvent.objects.count()) == ([], 0)

    def test_a_revert_brings_the_former_text_back_as_a_new_version(self) -> None:
        thread = make_thread()
        add_messages(thread, text("first", id="a"))
        first = only_message().content
        storage = DjangoStorage()
        storage.repair_messages(of(thread, text("second", id="a")), rule="r", reason="x")
        assert storage.revert_message(thread, "a", 1, "Ada") == 3
        assert only_message().content == first
        assert [version for version, _, _ in versions()] == [1, 2]
        assert (only_message().written_by, only_message().rule) == ("Ada", "")
        assert list(AuditEvent.objects.order_by("id").values_list("action", flat=True)) == [
            "messages.repaired",
            "message.reverted",
        ]
        with pytest.raises(NotFound):
            storage.revert_message(make_thread(), "a", 1, "Ada")

    def test_raw_sql_on_a_closed_message_leaves_one_and_names_the_database(self) -> None:
        add_messages(make_thread(), text("said", id="a"), run_id="run-1")
        before = only_message().content
        with connection.cursor() as cursor:
            cursor.execute("UPDATE memory_message SET content = %s", ['{"format":2,"parts":[]}'])
        assert versions() == [(1, "tester", before)]
        row = only_message()
        assert (row.version, row.written_by, row.reason, row.rule, row.run_id) == (
            2,
            "database",
            "changed outside the application",
            "",
            "",
        )
        assert MessageVersion.objects.get().run_id == "run-1"
        age = row.saved_at - MessageVersion.objects.get().archived_at
        assert abs(age.total_seconds()) < 60

    def test_raw_sql_many_times_counts_up(self) -> None:
        add_messages(make_thread(), text("said"), text("heard"))
        with connection.cursor() as cursor:
            for _ in range(3):
                cursor.execute("UPDATE memory_message SET content = content || ' '")
        assert sorted(version for version, _, _ in versions()) == [1, 1, 2, 2, 3, 3]
        assert set(Message.objects.values_list("version", flat=True)) == {4}

    def test_the_same_text_written_again_leaves_none(self) -> None:
        add_messages(make_thread(), text("said"))
        row = only_message()
        row.save()
        Message.objects.bulk_update([row], ["content"])
        assert versions() == []
        assert only_message().written_by == "tester"

    def test_saving_a_model_instance_leaves_one(self) -> None:
        add_messages(make_thread(), text("said"))
        row = only_message()
        row.content = "{}"
        row.save()
        assert len(versions()) == 1
        assert only_message().written_by == "database"

    def test_deleting_archives_nothing(self) -> None:
        add_messages(make_thread(), text("said"), text("heard"))
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM memory_message WHERE seq = 1")
        assert versions() == []
        Thread.objects.get().delete()
        assert versions() == []


def has_trigger() -> bool:
    return triggers.check_triggers(databases=[ALIAS]) == []


@pytest.fixture
def triggers_restored() -> Iterator[None]:
    yield
    triggers.create_after_migration(None, using=ALIAS)


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("triggers_restored")
class TestTriggersAndMigrations:
    def test_are_there_after_migrate(self) -> None:
        assert has_trigger()
        call_command("migrate", verbosity=0)
        assert has_trigger()

    def test_a_missing_one_is_an_error_that_says_how_to_mend_it(self) -> None:
        with connection.cursor() as cursor:
            on_table = "" if connection.vendor == "sqlite" else " ON memory_message"
            cursor.execute(f"DROP TRIGGER {triggers.TRIGGER}{on_table}")
        [error] = triggers.check_triggers(databases=[ALIAS])
        assert (error.id, error.level) == ("memory.E001", 40)
        assert "migrate --skip-checks" in str(error.hint)
        assert triggers.check_triggers() == []
        call_command("migrate", verbosity=0)
        assert has_trigger()

    def test_creating_them_twice_is_as_good_as_once(self) -> None:
        triggers.create_after_migration(None, using=ALIAS)
        triggers.create_after_migration(None, using=ALIAS)
        add_messages(make_thread(), text("said"))
        Message.objects.update(content="{}")
        assert len(versions()) == 1

    def test_outlive_a_migration_that_rebuilds_their_tables(self) -> None:
        add_messages(make_thread(), text("said"))
        state = MigrationExecutor(connection).loader.project_state()
        plan = [(Rebuild("9999_rebuild", "memory"), False)]
        self._announce(pre_migrate, plan)
        assert not has_trigger()
        with connection.schema_editor(atomic=True) as editor:
            after = plan[0][0].apply(state.clone(), editor)  # it changes the state it is given
        with connection.schema_editor(atomic=True) as editor:
            plan[0][0].unapply(state, editor)
        assert after.apps is not None
        self._announce(post_migrate, plan)
        assert has_trigger()
        Message.objects.update(content="{}")
        assert len(versions()) == 1
        Message.objects.update(role="r" * 16, content="x" * 100_001)  # the columns are what they were

    def test_stay_in_force_while_other_apps_migrate(self) -> None:
        self._announce(pre_migrate, [(migrations.Migration("0099_other", "auth"), False)])
        assert has_trigger()

    def _announce(self, signal: Any, plan: list[Any]) -> None:
        config = apps.get_app_config("memory")
        signal.send(sender=config, app_config=config, verbosity=0, interactive=False, using=ALIAS, plan=plan, apps=apps)


class Rebuild(migrations.Migration):
    """Changes a column of both tables, which SQLite does by making them anew; and back again."""

    operations = [
        migrations.AlterField("message", "role", models.CharField(max_length=17)),
        migrations.AlterField("messageversion", "reason", models.TextField(default="-", blank=True)),
        migrations.AlterField("message", "content", models.CharField(max_length=100_000)),
    ]
