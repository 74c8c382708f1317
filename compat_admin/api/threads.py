"""Threads: list, make, read, change, delete."""

from __future__ import annotations

from django.http import HttpResponse
from ninja import Router

from compat_admin.api.auth import READ, WRITE, ApiRequest
from compat_admin.api.bodies import read_body, reply
from compat_admin.api.documents import documents
from compat_admin.api.repeats import repeatable
from compat_admin.api.schemas import Limit, NewThread, ThreadChange
from memory import queries
from memory.access import thread_for
from memory.models import Thread
from memory.queries import Page, ThreadItem
from memory.services import threads

router = Router(tags=["threads"])


@router.get("/threads", auth=READ, **documents(Page[ThreadItem]))
def list_threads(
    request: ApiRequest,
    limit: Limit = 20,
    cursor: str | None = None,
    resource_id: str | None = None,
    provider: str | None = None,
    has_error: bool | None = None,
    agent_id: str | None = None,
) -> Page[ThreadItem]:
    """Threads, newest activity first. A key of a resource sees that resource's only."""
    return queries.threads_page(
        request.auth,
        cursor=cursor,
        limit=limit,
        resource_id=resource_id,
        provider=provider,
        has_error=has_error,
        agent_id=agent_id,
    )


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


@router.get("/threads/{thread_id}", auth=READ, **documents(ThreadItem))
def read_thread(request: ApiRequest, thread_id: str) -> ThreadItem:
    """A thread. Another resource's is as absent as one that never was."""
    return _item(thread_for(request.auth, thread_id))


@router.patch("/threads/{thread_id}", auth=WRITE, **documents(ThreadItem, body=ThreadChange))
def change_thread(request: ApiRequest, thread_id: str) -> ThreadItem:
    """Replace the given fields, metadata as a whole."""
    thread = thread_for(request.auth, thread_id)
    body = read_body(request, ThreadChange)
    return _item(threads.update_thread(thread, title=body.title, metadata=body.metadata, agent_id=body.agent_id))


@router.delete("/threads/{thread_id}", auth=WRITE, **documents(status=204))
def delete_thread(request: ApiRequest, thread_id: str) -> HttpResponse:
    """Delete a thread with its messages, versions and runs; 409 `run_active` while one of its runs is at work."""
    threads.delete_thread(request.auth, thread_for(request.auth, thread_id))
    return HttpResponse(status=204)


def _item(thread: Thread) -> ThreadItem:
    return ThreadItem(*(getattr(thread, name) for name in ThreadItem.__struct_fields__))
