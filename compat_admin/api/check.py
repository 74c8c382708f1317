"""What a target would refuse of a history, told without any call."""

from __future__ import annotations

from typing import Any

from ninja import Router

from compat_admin.api.auth import READ, ApiRequest
from compat_admin.api.bodies import read_body
from compat_admin.api.documents import documents
from compat_admin.api.messages import check_messages
from compat_admin.api.schemas import CheckAnswer, CheckFinding, CheckWanted, Imported
from memory.errors import FieldError, InvalidInput
from memory.processors.compat.catalogue import FAMILIES
from memory.services import checks

router = Router(tags=["preview"])

_ASKED = {"thread_id": "support-17", "provider": "anthropic", "model": "claude-sonnet-4-5"}
_ANSWERED = {
    "provider": "anthropic",
    "model": "claude-sonnet-4-5",
    "protocol": "anthropic-messages",
    "breaks": True,
    "findings": [
        {
            "rule": "anthropic-tool-id-charset",
            "family": "",
            "severity": "breaks",
            "loss": "same",
            "message": 2,
            "message_id": "m-2",
            "role": "assistant",
            "place": "/1/content/parts/0",
            "reason": "Ids may hold letters, digits, _ and - only. Call and result are renamed together.",
        }
    ],
}


@router.post("/check", auth=READ, **documents(CheckAnswer, body=CheckWanted, example=(_ASKED, _ANSWERED)))
def check_history(request: ApiRequest) -> CheckAnswer:
    """The faults of a history for a provider and model (or an agent's), with rule, place and what mending them loses.

    The history is a stored thread's (`thread_id`) or given as `messages`: a list in stored or prompt form, or a
    provider's own request body with its `format`. Nothing is called and nothing is stored.
    """
    body = read_body(request, CheckWanted)
    if (body.thread_id is None) == (body.messages is None):
        words = "give exactly one of thread_id and messages"
        raise InvalidInput(words, errors=tuple(FieldError(field, words) for field in ("thread_id", "messages")))
    source: dict[str, Any] = {"thread_id": body.thread_id}
    match body.messages:
        case Imported(format=protocol, body=sent):
            source = {"imported": (protocol, sent)}
        case list() as messages:
            check_messages(messages)
            source = {"messages": messages}
    found = checks.check_history(
        request.auth, **source, provider=body.provider, model=body.model, agent_id=body.agent_id
    )
    findings = [
        CheckFinding(
            rule=one.rule,
            family=FAMILIES.get(one.rule, ""),
            severity=one.severity,
            loss=one.loss,
            message=one.message,
            message_id=one.message_id,
            role=one.role,
            place=one.place,
            reason=one.reason,
        )
        for one in found.findings
    ]
    breaks = any(one.severity == "breaks" for one in findings)
    return CheckAnswer(found.provider, found.model, found.protocol, breaks, findings)
