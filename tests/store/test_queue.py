"""Tasks are queued by name, once what they are about is committed."""

import queue as standard_queue
from collections.abc import Iterator
from typing import Any

import pytest
from celery import current_app
from django.db import transaction

from memory import queue


@pytest.fixture
def waiting() -> Iterator[Any]:
    """The broker's queue, in memory and empty at first."""
    with current_app.connection_for_read() as broker:
        simple = broker.SimpleQueue(current_app.conf.task_default_queue)
        simple.clear()
        yield simple
        simple.clear()
        simple.close()


def taken(waiting: Any) -> list[tuple[str, list[str]]]:
    """What waits, as task names and arguments."""
    found = []
    while True:
        try:
            message = waiting.get(block=False)
        except standard_queue.Empty:
            return found
        message.ack()
        found.append((message.headers["task"], message.payload[0]))


@pytest.mark.django_db(transaction=True)
class TestSending:
    def test_waits_for_the_commit(self, waiting: Any) -> None:
        with transaction.atomic():
            queue.send("memory.some_task", "row-1")
            assert taken(waiting) == []
        assert taken(waiting) == [("memory.some_task", ["row-1"])]

    def test_that_is_rolled_back_sends_nothing(self, waiting: Any) -> None:
        with transaction.atomic():
            queue.send("memory.some_task", "row-1")
            transaction.set_rollback(True)
        assert taken(waiting) == []

    def test_outside_a_transaction_goes_at_once(self, waiting: Any) -> None:
        queue.send("memory.some_task", "row-2")
        assert taken(waiting) == [("memory.some_task", ["row-2"])]
