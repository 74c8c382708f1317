"""Threads: list, make, read, change, clone, delete."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from django.http import HttpResponse
from ninja import Router
from pydantic import Field

from compat_admin.api.auth import READ, WRITE, ApiRequest
from compat_admin.api.bodies import read_body, reply
from compat_admin.api.documents import documents
from compat_admin.api.fields import only, only_of, wanted_fields
from compat_admin.api.repeats import repeatable
from compat_admin.api.schemas import Fields, Limit, NewThread, ThreadChange, ThreadClone
from memory import queries
from memory.access import hide_content, thread_for
from memory.errors import InvalidInput
from memory.models import Thread
from memory.principal import can_be_looked_up
from memory.queries import Count, Page, ThreadItem
from memory.services import threads

router = Router(tags=["threads"])

MAX_FILTERS = 10
# Beyond it databases compare as floats, and so take different numbers for the same.
LARGEST_NUMBER = 2**53
_KEY = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,127}", re.ASCII)
Metadata = Annotated[
    str,
    Field(max_length=4000, description='Values that a thread\'s metadata has, as JSON: `{"channel": "web"}`.'),
]


@router.get("/threads", auth=READ, **documents(Page[ThreadItem], has_fields=True))
def list_threads(
    request: ApiRequest,
    limit: Limit = 20,
    cursor: str | None = None,
    resource_id: str | None = None,
    provider: str | None = None,
    has_error: bool | None = None,
    agent_id: str | None = None,
    active_since: datetime | None = None,
    active_before: datetime | None = None,
    metadata: Metadata | None = None,
    fields: Fields | None = None,
    count: Count | None = None,
) -> Page[Any]:
    """Threads, newest activity first. A key of a resource sees that resource's only."""
    names = wanted_fields(fields, ThreadItem)
    page = queries.threads_page(
        request.auth,
        cursor=cursor,
        limit=limit,
        resource_id=resource_id,
        provider=provider,
        has_error=has_error,
        agent_id=agent_id,
        active_since=_instant(active_since, "active_since"),
        active_before=_instant(active_before, "active_before"),
        metadata=_values(metadata),
        count=count,
    )
    return only(page, names)


@router.post("/threads", auth=WRITE, **documents(ThreadItem, status=201, body=NewThread))
@repeatable()
def create_thread(request: ApiRequest) -> HttpResponse:
    """Make a thread. A key of a resource that names another one gets 403 `forbidden`; a taken id is 409 `id_taken`."""
    body = read_body(request, NewThread)
    thread = threads.create_thread(
        request.auth,
        resource_id=body.resource_id,
        thread_id=body.id or "",
        title=body.title,
        metadata=body.metadata,
        agent_id=body.agent_id,
    )
    return reply(_item(thread), 201)


@router.get("/threads/{thread_id}", auth=READ, **documents(ThreadItem, has_fields=True))
def read_thread(request: ApiRequest, thread_id: str, fields: Fields | None = None) -> Any:
    """A thread. Another resource's is as absent as one that never was."""
    names = wanted_fields(fields, ThreadItem)
    return only_of(_item(thread_for(request.auth, thread_id)), names)


@router.patch("/threads/{thread_id}", auth=WRITE, **documents(ThreadItem, body=ThreadChange))
def change_thread(request: ApiRequest, thread_id: str) -> ThreadItem:
    """Replace the given fields, metadata as a whole."""
    thread = thread_for(request.auth, thread_id)
    body = read_body(request, ThreadChange)
    changed = threads.update_thread(thread, title=body.title, metadata=body.metadata, agent_id=body.agent_id)
    return _item(hide_content(request.auth, changed))


@router.delete("/threads/{thread_id}", auth=WRITE, **documents(status=204))
def delete_thread(request: ApiRequest, thread_id: str) -> HttpResponse:
    """Delete a thread with its messages, versions and runs; 409 `run_active` while one of its runs is at work."""
    threads.delete_thread(request.auth, thread_for(request.auth, thread_id))
    return HttpResponse(status=204)


@router.post(
    "/threads/{thread_id}/clone",
    auth=WRITE,
    **documents(ThreadItem, status=201, body=ThreadClone),
)
@repeatable()
def clone_thread(request: ApiRequest, thread_id: str) -> HttpResponse:
    """Make a thread with this one's messages as they are now, under the same ids; its runs and versions stay behind.

    `up_to` ends it at a message: a way to try another answer.
    """
    thread = thread_for(request.auth, thread_id)
    body = read_body(request, ThreadClone)
    made = threads.clone_thread(
        request.auth,
        thread,
        thread_id=body.id or "",
        resource_id=body.resource_id,
        title=body.title,
        metadata=body.metadata,
        up_to=body.up_to,
        last=body.last,
    )
    return reply(_item(hide_content(request.auth, made)), 201)


def _item(thread: Thread) -> ThreadItem:
    return ThreadItem(*(getattr(thread, name) for name in ThreadItem.__struct_fields__))


def _instant(at: datetime | None, field: str) -> datetime | None:
    """The time in UTC, as which one without a zone counts."""
    if at is None:
        return None
    try:
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except OverflowError as error:
        raise InvalidInput("expected a time within the years 1 to 9999", field=field) from error


def _values(text: str | None) -> dict[str, Any] | None:
    """The filter's values. Raises InvalidInput for what metadata is not searched by."""
    if text is None:
        return None
    try:
        values = msgspec.json.decode(text.encode("utf-8", "replace"), type=dict[str, str | int | float | bool])
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidInput("expected an object of texts, numbers and truth values", field="metadata") from error
    if len(values) > MAX_FILTERS:
        raise InvalidInput(f"expected at most {MAX_FILTERS} keys", field="metadata")
    for key, value in values.items():
        if not _KEY.fullmatch(key):
            raise InvalidInput("a key is a letter or _ and letters, digits and _", field="metadata")
        fits = can_be_looked_up(value) if isinstance(value, str) else abs(value) <= LARGEST_NUMBER
        if not fits:
            raise InvalidInput(f"no metadata holds this value of {key}", field="metadata")
    return values
