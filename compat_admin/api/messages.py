"""Messages of a thread: read them as stored, add to the end, delete, bring a version back."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import groupby
from typing import Any

import msgspec
from django.http import HttpResponse
from msgspec import UNSET
from ninja import Router

from compat_admin.api.auth import READ, WRITE, ApiRequest
from compat_admin.api.bodies import misfit, raw_content, read_body, reply
from compat_admin.api.documents import documents
from compat_admin.api.fields import only, wanted_fields
from compat_admin.api.paging import page_of
from compat_admin.api.repeats import repeatable
from compat_admin.api.schemas import (
    Answer,
    Fields,
    JsonObject,
    Limit,
    NewMessages,
    Revert,
    SavedMessage,
    Seq,
    StoredMessage,
)
from memory import queries, store
from memory.access import thread_for
from memory.errors import FieldError, InvalidInput, NotFound
from memory.messages.from_prompt import from_prompt
from memory.messages.prompt import Message as PromptMessage
from memory.messages.prompt import prompt_from_json
from memory.messages.stored import timestamp
from memory.models import Message, Thread
from memory.principal import can_be_looked_up
from memory.queries import Count, Page, VersionItem
from memory.services import threads
from memory.store import DjangoStorage

router = Router(tags=["messages"])

NO_BODIES = -1
IDS_PER_QUERY = 500  # SQLite takes 32,766 values a statement


@router.get("/threads/{thread_id}/messages", auth=READ, **documents(Page[StoredMessage], has_fields=True))
def list_messages(
    request: ApiRequest,
    thread_id: str,
    limit: Limit = 40,
    cursor: str | None = None,
    before: Seq | None = None,
    after: Seq | None = None,
    around: Seq | None = None,
    fields: Fields | None = None,
    count: Count | None = None,
) -> Page[Any]:
    """The newest page first, each page oldest first; or what stands before, after or around a message's `seq`.

    The cursor goes on the way the first page went: back, or forth with `after`. `around` has no next page.
    """
    thread = thread_for(request.auth, thread_id)
    names = wanted_fields(fields, StoredMessage)
    given = {"cursor": cursor or None, "before": before, "after": after, "around": around}
    if len([value for value in given.values() if value is not None]) > 1:
        raise InvalidInput("give at most one of cursor, before, after and around", field="cursor")
    size = NO_BODIES if names is not None and "content" not in names else None
    if around is not None:
        page = queries.messages_around(thread, around, limit=limit, max_bytes=size)
    else:
        page = queries.messages_page(thread, cursor=cursor, before=before, after=after, limit=limit, max_bytes=size)
    items = [
        _stored(thread, item.id, item.role, item.created_at, item.type, item.content or "", item.seq, item.version)
        for item in page.items
    ]
    total = UNSET if count is None else thread.message_count
    return only(Page(items, page.next_cursor, total), names)


@router.post(
    "/threads/{thread_id}/messages",
    auth=WRITE,
    **documents(Answer[SavedMessage], status=201, body=NewMessages),
)
@repeatable()
def add_messages(request: ApiRequest, thread_id: str) -> HttpResponse:
    """Add messages to the end of the thread, all or none.

    Ids are unique in their thread; one that is there with the same role and content changes nothing, with others it
    is 409 `message_exists`. In prompt form the results of tools go into the message of their call, so that fewer
    messages may be saved than were sent.
    """
    thread = thread_for(request.auth, thread_id)
    values = stored_form(read_body(request, NewMessages, as_sent=True).messages)
    ids = threads.append_messages(request.auth, thread, values)
    return reply(Answer(_saved(thread, ids)), 201)


@router.get("/threads/{thread_id}/messages/{message_id}", auth=READ, **documents(StoredMessage))
def read_message(request: ApiRequest, thread_id: str, message_id: str, version: int | None = None) -> StoredMessage:
    """A message, as it is or as it was at an earlier version."""
    thread = thread_for(request.auth, thread_id)
    message = _message(thread, message_id)
    if version is None or version == message.version:
        return message
    if not 0 < version < message.version:
        raise NotFound("no such message or version")
    text = queries.message_text(thread, message_id, version=version)
    return msgspec.structs.replace(message, content=raw_content(text), version=version)


@router.get("/threads/{thread_id}/messages/{message_id}/versions", auth=READ, **documents(Page[VersionItem]))
def list_versions(
    request: ApiRequest, thread_id: str, message_id: str, limit: Limit = 20, cursor: str | None = None
) -> Page[VersionItem]:
    """What a message was before, newest first; nothing for one that never changed."""
    thread = thread_for(request.auth, thread_id)
    _message(thread, message_id)
    versions = queries.versions_of(thread, message_id)
    return page_of(versions, name="versions", key_of=lambda item: str(item.version), cursor=cursor, limit=limit)


@router.delete("/threads/{thread_id}/messages/{message_id}", auth=WRITE, **documents(status=204))
def delete_message(request: ApiRequest, thread_id: str, message_id: str) -> HttpResponse:
    """Delete a message with its versions; 409 `run_active` while a run of the thread is at work."""
    threads.delete_message(request.auth, thread_for(request.auth, thread_id), message_id)
    return HttpResponse(status=204)


@router.post("/threads/{thread_id}/messages/{message_id}/revert", auth=WRITE, **documents(SavedMessage, body=Revert))
def revert_message(request: ApiRequest, thread_id: str, message_id: str) -> SavedMessage:
    """Make the text of an earlier version the present one, as a new version; nothing is lost by it."""
    thread = thread_for(request.auth, thread_id)
    version = read_body(request, Revert).version
    if not can_be_looked_up(message_id):
        raise NotFound("no such message")
    DjangoStorage().revert_message(thread, message_id, version, request.auth.name)
    return _saved(thread, [message_id])[0]


def stored_form(messages: Sequence[JsonObject]) -> list[JsonObject]:
    """The messages in stored form; ids and times of the prompt form are kept where one message stays one.

    Raises InvalidInput with the places of what does not fit.
    """
    out: list[JsonObject] = []
    errors: list[FieldError] = []
    for in_prompt_form, group in groupby(enumerate(messages), key=lambda entry: _is_prompt_form(entry[1])):
        numbered = list(group)
        if not in_prompt_form:
            out.extend(message for _, message in numbered)
        elif problems := _prompt_problems(numbered):
            errors.extend(problems)
        else:
            out.extend(_from_prompt_form([message for _, message in numbered]))
    if errors:
        raise InvalidInput("these messages can't be read", errors=tuple(errors))
    return out


def check_messages(messages: Sequence[JsonObject]) -> None:
    """Raises InvalidInput with places for messages, in either form, that no history can hold. System texts are fine."""
    errors: list[FieldError] = []
    for i, message in enumerate(messages):
        if _is_prompt_form(message):
            errors.extend(_prompt_problems([(i, message)], roles=("system", "user", "assistant", "tool")))
        elif message.get("role") != "system":
            errors.extend(
                FieldError(f"messages[{i}]{error.field.removeprefix('messages[0]')}", error.message)
                for error in store.check_messages([message])
            )
    if errors:
        raise InvalidInput("these messages can't be read", errors=tuple(errors))


def _is_prompt_form(message: JsonObject) -> bool:
    return message.get("role") == "tool" or isinstance(message.get("content"), str | list)


def _prompt_problems(
    numbered: Sequence[tuple[int, JsonObject]], *, roles: Sequence[str] = ("user", "assistant", "tool")
) -> list[FieldError]:
    """What is wrong with messages in prompt form, one finding a message."""
    errors = []
    for i, message in numbered:
        if message.get("role") not in roles:
            errors.append(FieldError(f"messages[{i}].role", f"expected one of {', '.join(roles)}"))
            continue
        if message.get("id") is not None and (problem := store.id_problem(message["id"])):
            errors.append(FieldError(f"messages[{i}].id", problem))
            continue
        try:
            prompt = prompt_from_json([message])
            # Decoding takes any value for a text; this looks at the types, too.
            msgspec.convert(msgspec.to_builtins(prompt.messages[0]), PromptMessage)
            from_prompt(prompt)
        except msgspec.ValidationError as error:
            errors.append(misfit(error, f"messages[{i}]"))
        except ValueError as error:
            place, _, text = str(error).partition(": ")
            if place.startswith("messages[0]") and text:
                errors.append(FieldError(f"messages[{i}]{place.removeprefix('messages[0]')}", text))
            else:
                errors.append(FieldError(f"messages[{i}]", str(error)))
    return errors


def _from_prompt_form(messages: Sequence[JsonObject]) -> list[JsonObject]:
    stored = from_prompt(prompt_from_json(messages))
    if len(stored) != len(messages):
        return stored
    return [
        {**made, **{name: given[name] for name in ("id", "createdAt") if given.get(name) is not None}}
        for made, given in zip(stored, messages, strict=True)
    ]


def _message(thread: Thread, message_id: str) -> StoredMessage:
    names = ("message_id", "role", "created_at", "type", "content", "seq", "version")
    found = Message.objects.filter(thread=thread.id, message_id=message_id).values_list(*names)
    row = found.first() if can_be_looked_up(message_id) else None
    if row is None:
        raise NotFound("no such message")
    return _stored(thread, *row)


def _stored(
    thread: Thread, id_: str, role: str, created_at: datetime, type_: str, content: str, seq: int, version: int
) -> StoredMessage:
    return StoredMessage(
        id=id_,
        role=role,
        createdAt=timestamp(created_at),
        threadId=thread.id,
        resourceId=thread.resource_id,
        type=type_,
        content=raw_content(content),
        seq=seq,
        version=version,
    )


def _saved(thread: Thread, ids: Sequence[str]) -> list[SavedMessage]:
    places: dict[str, SavedMessage] = {}
    for start in range(0, len(ids), IDS_PER_QUERY):
        some = Message.objects.filter(thread=thread.id, message_id__in=ids[start : start + IDS_PER_QUERY])
        rows: Any = some.values_list("message_id", "seq", "version")
        places.update((row[0], SavedMessage(*row)) for row in rows)
    return [places[message_id] for message_id in ids if message_id in places]
