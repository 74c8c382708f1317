"""Many threads that write at once: each gets its turn."""

import threading

import pytest
from django.db import DatabaseError, connection, transaction
from django.db.models import F

from memory.models import Thread

WRITERS, TIMES = 24, 20


@pytest.mark.django_db(transaction=True)
def test_all_get_their_turn() -> None:
    Thread.objects.create(id="t", resource_id="r")
    failures: list[DatabaseError] = []

    def write() -> None:
        try:
            for _ in range(TIMES):
                with transaction.atomic():
                    Thread.objects.filter(id="t").update(message_count=F("message_count") + 1)
        except DatabaseError as error:
            failures.append(error)
        finally:
            connection.close()

    writers = [threading.Thread(target=write) for _ in range(WRITERS)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(120)
    assert failures == []
    assert Thread.objects.get().message_count == WRITERS * TIMES


@pytest.mark.django_db(transaction=True)
def test_a_turn_ends_with_a_rollback_and_with_the_connection_too() -> None:
    with pytest.raises(ValueError), transaction.atomic():
        Thread.objects.create(id="t", resource_id="r")
        raise ValueError
    connection.ensure_connection()
    transaction.set_autocommit(False)
    Thread.objects.create(id="u", resource_id="r")
    connection.close()
    with transaction.atomic():
        Thread.objects.create(id="v", resource_id="r")
    assert list(Thread.objects.values_list("id", flat=True)) == ["v"]
