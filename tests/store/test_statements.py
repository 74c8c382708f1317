"""Statements made once write and read the very rows that the ORM does."""

from datetime import timedelta
from typing import Any

import pytest
from django.db.models import Model
from django.utils import timezone

from memory.models import Agent, Attempt, Run, Thread
from memory.statements import insert_row, load_row, update_rows
from tests import make

pytestmark = pytest.mark.django_db


def fields(row: Model | None) -> dict[str, Any]:
    assert row is not None
    values = {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields}
    return {name: bytes(value) if isinstance(value, memoryview) else value for name, value in values.items()}


def test_a_row_is_read_as_the_orm_reads_it() -> None:
    agent = make.make_agent()
    thread = make.make_thread(messages=2, metadata={"ä": [1, None, True]})
    run = make.make_run(thread, agent=agent, usage={"input_tokens": 3})
    for model, key in ((Agent, agent.id), (Thread, thread.id), (Run, run.id)):
        assert fields(load_row(model, key)) == fields(model.objects.get(pk=key))
    assert load_row(Run, "absent") is None
    loaded = load_row(Run, run.id)
    assert loaded is not None and loaded.agent == agent
    loaded.error_message = "changed"
    loaded.save()
    assert Run.objects.get().error_message == "changed"


def test_a_row_is_written_as_the_orm_writes_it() -> None:
    run = make.make_run(make.make_thread())
    now = timezone.now()
    values = {"request_headers": {"a": "ü"}, "request_body": b"\x00\xff", "decision": "open", "started_at": now}
    common = {"run_id": run.id, "provider": "anthropic", "protocol": "p", "model_id": "m", "url": "u"}
    Attempt.objects.create(number=1, **common, **values)
    insert_row(Attempt(number=2, **common, **values))
    one, other = (fields(row) for row in Attempt.objects.order_by("number"))
    ignored = ("id", "number")
    assert {k: v for k, v in one.items() if k not in ignored} == {k: v for k, v in other.items() if k not in ignored}


def test_an_update_says_how_many_rows_it_met() -> None:
    run = make.make_run(make.make_thread(), status="running")
    later = timezone.now() + timedelta(hours=1)
    assert update_rows(Run, {"id": run.id, "finished_at": None}, due_at=later, usage={"x": 1}, is_own_call=True) == 1
    row = Run.objects.get()
    assert (row.due_at, row.usage, row.is_own_call) == (later, {"x": 1}, True)
    assert update_rows(Run, {"id": run.id, "finished_at": None}, finished_at=later) == 1
    assert update_rows(Run, {"id": run.id, "finished_at": None}, status="failed") == 0
    assert Run.objects.get().status == "running"
