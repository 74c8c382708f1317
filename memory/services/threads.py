"""Threads: make, change, clone, delete, and add or delete messages by hand."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from django.db import transaction
from django.db.models import F
from django.utils import timezone
from msgspec import UNSET, UnsetType

from memory import audit, store
from memory.access import Principal
from memory.errors import Conflict, FieldError, Forbidden, InvalidInput, NotFound
from memory.messages.stored import clean_content, instant
from memory.models import Agent, Message, MessageVersion, Run, Thread
from memory.principal import can_be_looked_up

MAX_TITLE_LENGTH = 500


def create_thread(
    caller: Principal,
    *,
    resource_id: str = "",
    thread_id: str = "",
    title: str = "",
    metadata: Mapping[str, Any] | None = None,
    agent_id: str | None = None,
) -> Thread:
    """Make a thread for a resource, by default the caller's own, under the given id or a new one.

    Raises Forbidden for another resource than the caller's, Conflict (id_taken), InvalidInput with field errors.
    """
    resource_id = resource_id or caller.resource_id
    errors = [
        *_problem("resource_id", store.id_problem(resource_id) if resource_id else "a thread needs a resource"),
        *_problem("id", store.thread_id_problem(thread_id) if thread_id else ""),
    ]
    if errors:
        raise InvalidInput("this thread can't be made", errors=tuple(errors))
    if not caller.may_act_for(resource_id):
        raise Forbidden("this key acts for another resource")
    thread = Thread(
        id=thread_id or f"thr_{uuid.uuid4().hex}",
        resource_id=resource_id,
        title=_title(title),
        metadata=_metadata(metadata or {}),
        agent_id=_agent(agent_id),
    )
    if not store.insert_thread(thread):
        raise Conflict("this thread id is taken", code="id_taken")
    return thread


def update_thread(
    thread: Thread,
    *,
    title: str | UnsetType = UNSET,
    metadata: Mapping[str, Any] | UnsetType = UNSET,
    agent_id: str | UnsetType | None = UNSET,
) -> Thread:
    """Replace the given fields, metadata as a whole, and nothing else; the thread as it is now.

    Raises InvalidInput with field errors, NotFound when the thread is gone.
    """
    changes: dict[str, Any] = {"updated_at": timezone.now()}
    if title is not UNSET:
        changes["title"] = _title(title)
    if metadata is not UNSET:
        changes["metadata"] = _metadata(metadata)
    if agent_id is not UNSET:
        changes["agent_id"] = _agent(agent_id)
    # Not `save()`: the counters may have moved since the thread was read.
    if not Thread.objects.filter(id=thread.id).update(**changes):
        raise NotFound("no such thread")
    for name, value in changes.items():
        setattr(thread, name, value)
    return thread


def delete_thread(caller: Principal, thread: Thread) -> dict[str, int]:
    """Delete the thread with its messages, versions and runs; how many rows of each kind went.

    Raises Conflict (run_active) while a process holds one of its runs, NotFound when it is gone already.
    """
    with transaction.atomic():
        store.lock_thread(thread.id)
        _refuse_if_active(thread)
        counts = store.delete_thread(thread.id)
        audit.record(caller.name, "thread.deleted", "thread", thread.id, resource_id=thread.resource_id, deleted=counts)
    return counts


def clone_thread(
    caller: Principal,
    thread: Thread,
    *,
    thread_id: str = "",
    resource_id: str = "",
    title: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    up_to: str | None = None,
    last: int | None = None,
) -> Thread:
    """A new thread with the messages of `thread` as they are now, under the same ids, and none of its runs.

    `up_to` names the last message to copy, `last` how many at most. Its metadata is the source's with `metadata` laid
    over it, and `cloned_from`. Raises as `create_thread`, and NotFound for an unknown message.
    """
    now = timezone.now()
    with transaction.atomic():
        store.lock_thread(thread.id)
        source = Thread.objects.get(id=thread.id)
        messages = Message.objects.filter(thread=source)
        if up_to is not None:
            named = messages.filter(message_id=up_to) if can_be_looked_up(up_to) else messages.none()
            seq = named.values_list("seq", flat=True).first()
            if seq is None:
                raise NotFound("no such message")
            messages = messages.filter(seq__lte=seq)
        made = create_thread(
            caller,
            resource_id=resource_id or source.resource_id,
            thread_id=thread_id,
            title=source.title if title is None else title,
            metadata={**source.metadata, **(metadata or {}), "cloned_from": source.id},
            agent_id=source.agent_id,
        )
        seqs = list(messages.order_by("-seq").values_list("seq", flat=True)[:last])
        count, byte_count = 0, 0
        if seqs:
            count, byte_count = store.copy_messages(source.id, made.id, seqs[-1], seqs[0], caller.name, now)
        counters = {"message_count": count, "last_seq": count, "byte_count": byte_count}
        told = {"imported": source.imported, "last_provider": source.last_provider, "last_model": source.last_model}
        Thread.objects.filter(id=made.id).update(**counters, **told)
        audit.record(caller.name, "thread.cloned", "thread", made.id, source=source.id, messages=count)
    made.refresh_from_db()
    return made


def delete_message(caller: Principal, thread: Thread, message_id: str) -> None:
    """Delete a message with its versions. What follows keeps its place, so a `seq` is missing then.

    Raises NotFound, and Conflict (run_active) while a process holds a run of the thread.
    """
    if not can_be_looked_up(message_id):
        raise NotFound("no such message")
    with transaction.atomic():
        store.lock_thread(thread.id)
        _refuse_if_active(thread)
        row = (
            Message.objects.filter(thread=thread, message_id=message_id).values_list("id", "seq", "byte_count").first()
        )
        if row is None:
            raise NotFound("no such message")
        pk, seq, byte_count = row
        MessageVersion.objects.filter(message=pk).delete()
        Message.objects.filter(pk=pk).delete()
        Thread.objects.filter(id=thread.id).update(
            message_count=F("message_count") - 1, byte_count=F("byte_count") - byte_count, updated_at=timezone.now()
        )
        audit.record(caller.name, "message.deleted", "thread", thread.id, message_id=message_id, seq=seq)


def _refuse_if_active(thread: Thread) -> None:
    if Run.objects.filter(thread=thread, finished_at=None, lease_until__gt=timezone.now()).exists():
        raise Conflict("a run of this thread is active", code="run_active")


def append_messages(caller: Principal, thread: Thread, values: Sequence[Mapping[str, Any]]) -> list[str]:
    """Add messages to the end of a thread, all or none; their ids, in the given order.

    Values have `role` and `content`, and may have `id`, `createdAt` and `type`. An id that is there with the same role
    and content changes nothing. Raises InvalidInput with places such as `messages[0].content.parts`, Conflict
    (message_exists) for an id that is there with another content, NotFound when the thread is gone.
    """
    errors = store.check_messages(values) + _repeated_ids(values)
    if errors:
        raise InvalidInput("these messages can't be stored", errors=tuple(errors))
    messages = [
        (
            value.get("id") or f"msg_{uuid.uuid4().hex}",
            value["role"],
            _at(value.get("createdAt")),
            value["content"],
            value.get("type") or "text",
        )
        for value in values
    ]
    store.append_raw(thread, messages, written_by=caller.name)
    return [message[0] for message in messages]


def _at(value: Any) -> datetime | None:
    return None if value is None else instant(value)


def _repeated_ids(values: Sequence[Mapping[str, Any]]) -> list[FieldError]:
    first: dict[str, int] = {}
    errors = []
    for i, value in enumerate(values):
        message_id = value.get("id") if isinstance(value, Mapping) else None
        if isinstance(message_id, str) and first.setdefault(message_id, i) != i:
            errors.append(FieldError(f"messages[{i}].id", f"the same as messages[{first[message_id]}].id"))
    return errors


def _problem(field: str, message: str) -> list[FieldError]:
    return [FieldError(field, message)] if message else []


def _title(title: str) -> str:
    if len(title) > MAX_TITLE_LENGTH:
        raise InvalidInput(f"expected at most {MAX_TITLE_LENGTH} characters", field="title")
    return store.clean_label(title, MAX_TITLE_LENGTH)


def _metadata(metadata: Mapping[str, Any]) -> Any:
    # Cleaned like a message: PostgreSQL refuses U+0000 and half surrogates inside JSON, too.
    try:
        return msgspec.json.decode(clean_content(dict(metadata))[0])
    except RecursionError as error:
        raise InvalidInput("nested too deeply", field="metadata") from error


def _agent(agent_id: str | None) -> str | None:
    if agent_id is not None and (store.id_problem(agent_id) or not Agent.objects.filter(id=agent_id).exists()):
        raise InvalidInput("no such agent", field="agent_id")
    return agent_id
