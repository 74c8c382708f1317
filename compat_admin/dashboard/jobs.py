"""Jobs: the list, one with its progress and what came of it, and the forms that begin one."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse

from compat_admin.dashboard.pages import OperatorRequest, caller, listed, query, render_page
from compat_admin.dashboard.shown import cut
from memory import imports, queries
from memory.errors import Conflict, InvalidInput
from memory.models import Agent
from memory.services import jobs as service
from memory.services.job_kinds import KINDS, start_import, start_preview

PER_PAGE = 40
AGENTS_LISTED = 200
SHOWN_BYTES = 64_000
STATUSES = ("queued", "running", "done", "failed", "cancelled")
TITLES = {service.RUN_KIND: "Turn in the background"} | {name: kind.title for name, kind in KINDS.items()}
SAID = {"resource_id": "For the resource", "format": "Format", "model": "Model", "agent_id": "Agent"}
MARKS = {"queued": "live", "running": "live", "done": "ok", "failed": "err", "cancelled": "warn"}


def job_list(request: OperatorRequest) -> HttpResponse:
    """Jobs, newest first."""
    given = {name: request.GET.get(name, "") for name in ("status", "kind")}
    filters = {name: value for name, value in given.items() if value}
    page = queries.jobs_page(caller(request), cursor=request.GET.get("cursor") or None, limit=PER_PAGE, **filters)
    context = {
        "section": "jobs",
        **listed(request, page, filters),
        "statuses": STATUSES,
        "titles": TITLES,
        "marks": MARKS,
        "here": query({name: request.GET.get(name, "") for name in ("status", "kind", "cursor")}),
        "is_live": any(job.status in service.ACTIVE for job in page.items),
        "unheard": queries.unheard_jobs(caller(request)),
    }
    return render_page(request, "jobs/list.html", fragment="jobs/_rows.html", context=context)


def job_page(request: OperatorRequest, job_id: str) -> HttpResponse:
    """A job, with its failure if it has one."""
    job = service.job_for(caller(request), job_id)
    is_run = job.kind == service.RUN_KIND
    may_operate = caller(request).may("operate")
    context = {
        "section": "jobs",
        "job": job,
        "kind": TITLES.get(job.kind, job.kind),
        "mark": "warn" if _has_not_worked(job) else MARKS.get(job.status, ""),
        "headline": headline(job),
        "is_live": job.status in service.ACTIVE,
        "run_id": job.arguments.get("run_id", "") if is_run else "",
        "may_cancel": may_operate and job.status in service.ACTIVE and not is_run and job.cancel_asked_at is None,
        "may_retry": may_operate and job.status in ("failed", "cancelled") and not is_run,
        "arguments": {said: value for name, said in SAID.items() if (value := job.arguments.get(name))},
        "counts": {name: value for name, value in job.result.items() if isinstance(value, int)},
        "told": {name: value for name, value in job.result.items() if isinstance(value, str | float) and value},
        "lists": {name: value for name, value in job.result.items() if isinstance(value, list) and value},
        "traceback": cut(job.traceback, SHOWN_BYTES),
    }
    return render_page(request, "jobs/job.html", fragment="jobs/_job.html", context=context)


def headline(job: Any) -> tuple[str, str]:
    """How it is with a job, as a sentence and what follows it."""
    again = f"Attempt {job.attempt_count}. " if job.attempt_count > 1 else ""
    match job.status:
        case "queued" if job.attempt_count:
            return "It is tried again.", f"Attempt {job.attempt_count} failed: {job.error}"
        case "queued":
            return "It waits for somebody to take it.", ""
        case "running" if job.cancel_asked_at is not None:
            return "It ends at its next step.", again
        case "running":
            return "It is being done.", f"{again}{job.note}"
        case "done" if _has_not_worked(job):
            return "It was tried, and did not work.", "The page of its connection says what to do."
        case "done":
            left = job.result.get("left out", 0)
            told = f"Done, but {left} {'was' if left == 1 else 'were'} left out." if left else "Done."
            return told, f"At attempt {job.attempt_count}." if job.attempt_count > 1 else ""
        case "cancelled":
            return "It was cancelled.", "What it had done until then stays."
    return f"Failed: {job.error or 'no reason is on record'}", again


def _has_not_worked(job: Any) -> bool:
    """Whether it is the test of a connection that fails."""
    return bool(job.status == "done" and job.result.get("outcome", "answered") != "answered")


def cancel(request: OperatorRequest, job_id: str) -> HttpResponse:
    """End a job that is not over."""
    try:
        service.cancel_job(caller(request), job_id)
    except Conflict as error:
        messages.error(request, f"It was not cancelled: {error}.")
    return HttpResponseRedirect(reverse("job", args=[job_id]))


def retry(request: OperatorRequest, job_id: str) -> HttpResponse:
    """Begin a failed or cancelled job once more."""
    try:
        service.retry_job(caller(request), job_id)
    except Conflict as error:
        messages.error(request, f"It was not begun again: {error}.")
    return HttpResponseRedirect(reverse("job", args=[job_id]))


def new_import(request: OperatorRequest) -> HttpResponse:
    """A file whose histories become threads."""
    values = {name: request.POST.get(name, "") for name in ("resource_id", "format", "keep_owner")}
    context: dict[str, Any] = {"section": "jobs", "formats": imports.FORMATS, "values": values, "errors": {}}
    if request.method == "POST":
        upload = request.FILES.get("file")
        try:
            if upload is None:
                raise InvalidInput("choose a file", field="file")
            job = start_import(
                caller(request),
                upload.name or "file",
                upload.read(),
                resource_id=values["resource_id"],
                format_=values["format"],
                keep_owner=bool(values["keep_owner"]),
            )
        except InvalidInput as error:
            context["errors"] = {one.field: one.message for one in error.errors}
            return render_page(request, "jobs/import.html", context=context, status=422)
        return HttpResponseRedirect(reverse("job", args=[job.id]))
    return render_page(request, "jobs/import.html", context=context)


def new_preview(request: OperatorRequest) -> HttpResponse:
    """A look at what every thread would need for a target."""
    values = {name: request.POST.get(name, "") for name in ("model", "agent_id")}
    agents = list(Agent.objects.order_by("name", "id").values_list("id", "name")[:AGENTS_LISTED])
    context: dict[str, Any] = {"section": "jobs", "agents": agents, "values": values, "errors": {}}
    if request.method == "POST":
        try:
            job = start_preview(caller(request), model=values["model"].strip(), agent_id=values["agent_id"])
        except InvalidInput as error:
            context["errors"] = {"model": str(error)}
            return render_page(request, "jobs/preview.html", context=context, status=422)
        return HttpResponseRedirect(reverse("job", args=[job.id]))
    return render_page(request, "jobs/preview.html", context=context)
