"""Runs and their attempts: the ledger as it was written, cancelling, and reports about calls made elsewhere."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from msgspec import UNSET, structs
from ninja import Router

from compat_admin.api.agents import generated
from compat_admin.api.auth import READ, RUN, ApiRequest
from compat_admin.api.bodies import raw_json, read_body
from compat_admin.api.documents import documents
from compat_admin.api.fields import only, wanted_fields
from compat_admin.api.messages import check_messages
from compat_admin.api.preview import answer_of
from compat_admin.api.schemas import (
    AttemptAnswer,
    CancelledRun,
    ErrorReport,
    Fields,
    Limit,
    ReplyReport,
    ReportAnswer,
    RunAnswer,
    RunBundle,
    SeenResponse,
    SentRequest,
)
from memory import queries
from memory.queries import AttemptBodies, AttemptItem, Count, Page, RunItem
from memory.services import bundles, reports, runs

router = Router(tags=["runs"])


@router.get("/runs", auth=READ, **documents(Page[RunItem], has_fields=True))
def list_runs(
    request: ApiRequest,
    limit: Limit = 20,
    cursor: str | None = None,
    thread_id: str | None = None,
    status: str | None = None,
    agent_id: str | None = None,
    fields: Fields | None = None,
    count: Count | None = None,
) -> Page[Any]:
    """Runs, newest first. A key of a resource sees that resource's only."""
    names = wanted_fields(fields, RunItem)
    page = queries.runs_page(
        request.auth, cursor=cursor, limit=limit, thread_id=thread_id, status=status, agent_id=agent_id, count=count
    )
    return only(page, names)


@router.get("/runs/{run_id}", auth=READ, **documents(RunAnswer))
def read_run(request: ApiRequest, run_id: str) -> RunAnswer:
    """A run with its input and every attempt: what was sent, what came, what was decided and why."""
    detail = queries.run_detail(request.auth, run_id)
    bodies = queries.bodies_of(run_id)
    return RunAnswer(
        **structs.asdict(detail.run),
        input=raw_json(detail.input),
        settings=raw_json(detail.settings),
        message_ids=detail.message_ids,
        rules_hash=detail.rules_hash,
        removed_at=detail.removed_at,
        attempts=[_attempt(item, bodies[item.number]) for item in detail.attempts],
    )


@router.get("/runs/{run_id}/bundle", auth=READ, **documents(RunBundle))
def read_bundle(request: ApiRequest, run_id: str) -> HttpResponse:
    """A run as one file, without any key: for `manage.py replay`, or for a colleague. See docs/bundles.md."""
    response = HttpResponse(bundles.bundle_of(request.auth, run_id), content_type="application/json")
    response["Content-Disposition"] = f'attachment; filename="{run_id}.json"'
    return response


@router.post("/runs/{run_id}/cancel", auth=RUN, **documents(CancelledRun))
def cancel(request: ApiRequest, run_id: str) -> CancelledRun:
    """End a run: its call or wait at once. What had come of an answer is kept, marked incomplete. 409 for one over."""
    run = runs.cancel_run(request.auth, run_id)
    return CancelledRun(run.id, run.status)


@router.post("/runs/{run_id}/reply", auth=RUN, **documents(ReportAnswer, body=ReplyReport))
def report_reply(request: ApiRequest, run_id: str) -> ReportAnswer:
    """Say what the provider answered to the request of a prepared run. 409 `no_open_attempt` when none is open."""
    body = read_body(request, ReplyReport)
    if body.messages is not None:
        check_messages(body.messages)
    return _reported(reports.report_reply(request.auth, run_id, **structs.asdict(body)))


@router.post("/runs/{run_id}/error", auth=RUN, **documents(ReportAnswer, body=ErrorReport))
def report_error(request: ApiRequest, run_id: str) -> ReportAnswer:
    """Say how the call of a prepared run failed; the answer says whether to call again, when, and with what."""
    body = read_body(request, ErrorReport)
    return _reported(reports.report_error(request.auth, run_id, **structs.asdict(body)))


def _reported(report: reports.Report) -> ReportAnswer:
    shown = answer_of(report.shown) if report.shown is not None else None
    return ReportAnswer(
        run_id=report.run_id,
        status=report.status,
        retry=report.retry,
        delay_ms=report.delay_ms,
        reason=report.reason,
        attempt=report.attempt,
        request=shown.request if shown is not None else UNSET,
        changes=shown.changes if shown is not None else UNSET,
        result=generated(report.result) if report.result is not None else UNSET,
    )


def _attempt(item: AttemptItem, bodies: AttemptBodies) -> AttemptAnswer:
    fields = structs.asdict(item)
    request = SentRequest(
        headers=fields.pop("request_headers"),
        body=raw_json(bodies.sent.content or b"null"),
        size_bytes=fields.pop("request_size"),
        sha256=fields.pop("request_sha256"),
        problem=bodies.sent.problem,
    )
    response = SeenResponse(
        headers=fields.pop("response_headers"),
        body=raw_json(bodies.came or b"null"),
        size_bytes=fields.pop("response_size"),
    )
    fields.update(changes=raw_json(item.changes), findings=raw_json(item.findings))
    return AttemptAnswer(**fields, request=request, response=response)
