"""What we would do about a provider's error that somebody pastes."""

from __future__ import annotations

from msgspec import structs
from ninja import Router

from compat_admin.api.auth import READ, ApiRequest
from compat_admin.api.bodies import encode, read_body
from compat_admin.api.documents import documents
from compat_admin.api.preview import shown
from compat_admin.api.schemas import (
    DecisionSeen,
    ErrorExplained,
    ErrorPasted,
    ErrorSeen,
    PreviewedChange,
    PreviewedFinding,
    RuleNamed,
)
from memory.services.explain import explain_error

router = Router(tags=["errors"])


@router.post("/errors/explain", auth=READ, **documents(ErrorExplained, body=ErrorPasted))
def explain(request: ApiRequest) -> ErrorExplained:
    """The class of a provider's error, the rules that know it, whether it would be tried again, when, and why.

    Decided by the very functions that runs use, for an agent (none: the default processors) and a thread's next
    request (none: a greeting). Nothing is called and nothing is stored.
    """
    body = read_body(request, ErrorPasted)
    found = explain_error(
        request.auth,
        provider=body.provider,
        model=body.model,
        status=body.status,
        headers=body.headers,
        body=body.body if isinstance(body.body, str) else encode(body.body).decode(),
        agent_id=body.agent_id,
        thread_id=body.thread_id,
        times=body.times,
    )
    error = found.error
    return ErrorExplained(
        error=ErrorSeen(
            error_class=error.error_class,
            message=error.message,
            code=error.error_code,
            status=error.status_code,
            request_id=error.request_id,
            is_retryable=error.is_retryable,
            retry_after_ms=error.retry_after_ms,
        ),
        rules=[RuleNamed(**structs.asdict(rule)) for rule in found.rules],
        decision=DecisionSeen(
            retry=found.is_retry,
            delay_ms=found.delay_ms,
            wanted_ms=found.wanted_ms,
            reason=found.reason,
            asked_by=found.asked_by,
            matched=found.matched,
        ),
        changes_before=[shown(change, PreviewedChange) for change in found.changes_before],
        changes=[shown(change, PreviewedChange) for change in found.changes],
        findings=[shown(finding, PreviewedFinding) for finding in found.findings],
    )
