"""What a call would send, without sending it."""

from __future__ import annotations

from typing import Any

from msgspec import Raw
from ninja import Router

from compat_admin.api.auth import READ, ApiRequest
from compat_admin.api.bodies import read_body
from compat_admin.api.documents import documents
from compat_admin.api.messages import check_messages
from compat_admin.api.schemas import (
    Imported,
    PreviewAnswer,
    PreviewedChange,
    PreviewedFinding,
    PreviewedRequest,
    PreviewWanted,
)
from memory.errors import FieldError, InvalidInput
from memory.services import preview

router = Router(tags=["preview"])


@router.post("/preview", auth=READ, **documents(PreviewAnswer, body=PreviewWanted))
def preview_request(request: ApiRequest) -> PreviewAnswer:
    """The request that a history becomes for a provider and model, with every change by its rule. Nothing is stored.

    The history is a stored thread's (`thread_id`) or given as `messages`: a list in stored or prompt form, or a
    provider's own request body with its protocol as `format` (also beside each other at the top). Exactly one of them.
    """
    body = read_body(request, PreviewWanted)
    given = body.messages
    if (body.format is None) != (body.body is None):
        raise InvalidInput("format and body go together", field="body" if body.body is None else "format")
    if [body.thread_id, given, body.format].count(None) != 2:
        words = "give exactly one of thread_id, messages, and format with body"
        raise InvalidInput(words, errors=tuple(FieldError(field, words) for field in _SOURCES))
    if body.format is not None and body.body is not None:
        given = Imported(body.format, body.body)
    source: dict[str, Any] = {"thread_id": body.thread_id}
    match given:
        case Imported(format=protocol, body=sent):
            source = {"imported": (protocol, sent)}
        case list() as messages:
            check_messages(messages)
            source = {"messages": messages}
    made = preview.preview(
        request.auth,
        **source,
        provider=body.provider,
        model=body.model,
        agent_id=body.agent_id,
        settings=body.settings,
        rules=body.rules,
    )
    return answer_of(made)


def answer_of(made: preview.Preview) -> PreviewAnswer:
    """A preview as callers get it; the body's bytes are passed on as they are."""
    return PreviewAnswer(
        provider=made.provider,
        model=made.model,
        protocol=made.protocol,
        prompt=made.prompt,
        request=PreviewedRequest(
            method=made.request.method,
            url=made.request.url,
            headers=dict(made.request.headers),
            body=Raw(made.request.body),
            size_bytes=made.request.size_bytes,
        ),
        changes=[shown(change, PreviewedChange) for change in made.changes],
        findings=[shown(finding, PreviewedFinding) for finding in made.findings],
    )


_SOURCES = ("thread_id", "messages", "format")


def shown(value: Any, shape: Any) -> Any:
    """The fields of a value that callers see."""
    return shape(**{name: getattr(value, name) for name in shape.__struct_fields__})
