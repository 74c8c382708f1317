"""What jobs there are, and what does them. A new kind is a function that takes its `Work`, and a line here."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.db import transaction
from msgspec import structs

from memory import audit, imports
from memory.access import Principal
from memory.errors import CompatAdminError, InvalidInput, NotFound
from memory.imports.sources import sources_of
from memory.messages.names import PROVIDERS
from memory.models import Job, Thread
from memory.services.connections import new_client, target_model
from memory.services.importing import import_lines
from memory.services.jobs import ACTIVE, Kind, Work, add_job, job_id
from memory.services.pings import ping
from memory.services.preview import preview

_LISTED = 200
_KEPT_EVERY = 25
_PING = "connection-test"
_PING_S = 30.0
"""Who tests a connection waits for it; a turn may take longer."""
_MAX_MODEL_LENGTH = 200


def import_file(work: Work) -> dict[str, Any]:
    """Histories from the job's file become threads. One that was stored already is left as it is, so another attempt
    goes through the file once more and adds what is missing."""
    name, content = work.file()
    # Stores are read by their own reader, which wants a file.
    with tempfile.TemporaryDirectory(prefix="import-") as folder:
        path = Path(folder) / f"given{Path(name).suffix[:16]}"
        path.write_bytes(content)
        (source,) = sources_of(str(path))
        # How many a store has is only known in the end.
        units = source.units if content.startswith(b"SQLite format 3") else list(source.units)
        report = import_lines(
            work.each(units, total=len(units) if isinstance(units, list) else None, note=name),
            caller=work.caller,
            resource_id=work.arguments["resource_id"],
            source=name,
            format_=work.arguments.get("format", ""),
            keep_owner=bool(work.arguments.get("keep_owner")),
        )
    return {
        "threads made": report.threads_made,
        "threads extended": report.threads_extended,
        "messages added": report.messages_added,
        "unchanged": report.unchanged,
        "left out": len(report.skipped),
        "left out, by name": [[who, why.replace(f"{folder}/", "")] for who, why in report.skipped[:_LISTED]],
    }


def preview_threads(work: Work) -> dict[str, Any]:
    """What every thread would need for a target: how many go as they are, are changed, by which rule, or can't go."""
    counts = {"threads": 0, "as stored": 0, "changed": 0, "refused": 0}
    kept: dict[str, Any] = {"after": "", "counts": counts, "rules": {}, "refused": []} | work.state
    threads = Thread.objects.order_by("id")
    if work.caller.resource_id:
        threads = threads.filter(resource_id=work.caller.resource_id)
    total = threads.count()
    while ids := list(threads.filter(id__gt=kept["after"]).values_list("id", flat=True)[:_KEPT_EVERY]):
        for thread_id in ids:
            work.progress(kept["counts"]["threads"], total)
            _look(work, thread_id, kept)
            kept["after"] = thread_id
        with work.step(**kept):
            pass  # Nothing is done but looking: only how far it got is kept.
    by_use = sorted(kept["rules"].items(), key=lambda item: (-item[1], item[0]))
    return {**kept["counts"], "threads by rule": by_use, "refused, by thread": kept["refused"]}


def _look(work: Work, thread_id: str, kept: dict[str, Any]) -> None:
    ref = target_model(work.arguments["model"])
    agent_id = work.arguments.get("agent_id") or None
    kept["counts"]["threads"] += 1
    try:
        shown = preview(work.caller, thread_id=thread_id, provider=ref.provider, model=ref.model_id, agent_id=agent_id)
    except CompatAdminError as error:
        kept["counts"]["refused"] += 1
        if len(kept["refused"]) < _LISTED:
            kept["refused"].append([thread_id, str(error)])
        return
    rules = {change.rule for change in shown.changes}
    kept["counts"]["changed" if rules else "as stored"] += 1
    for rule in rules:
        kept["rules"][rule] = kept["rules"].get(rule, 0) + 1


def ping_connection(work: Work) -> dict[str, Any]:
    """A tiny call of a model. That it fails is a result, too."""
    with new_client(_PING_S) as client:
        return structs.asdict(ping(target_model(work.arguments["model"]), client))


KINDS: Mapping[str, Kind] = {
    "import": Kind(import_file, "imports", "Import"),
    "preview": Kind(preview_threads, "imports", "Preview of all threads"),
    # Where turns are called, with the keys that are there.
    _PING: Kind(ping_connection, "runs", "Test of a connection", max_attempts=1),
}


def start_import(
    caller: Principal, name: str, content: bytes, *, resource_id: str, format_: str = "", keep_owner: bool = False
) -> Job:
    """A job that imports the content of a file. Raises InvalidInput."""
    if not content.strip():
        raise InvalidInput("the file is empty", field="file")
    if not resource_id.strip():
        raise InvalidInput("say whose threads these become", field="resource_id")
    if format_ and format_ not in imports.FORMATS:
        raise InvalidInput(f"no format is called {format_!r}", field="format")
    arguments = {"resource_id": resource_id.strip(), "format": format_, "keep_owner": keep_owner}
    return start(caller, "import", arguments, title=f"Import {name}", file=(name, content))


def start_preview(caller: Principal, *, model: str, agent_id: str = "") -> Job:
    """A job that looks what every thread would need for `provider/model`. Raises InvalidInput."""
    target_model(model)
    return start(caller, "preview", {"model": model, "agent_id": agent_id}, title=f"All threads for {model}")


def start_connection_test(caller: Principal, provider: str, model_id: str) -> Job:
    """A job that calls a model once, in the place of the provider's last test; the one under way, where there is one.

    Raises NotFound, and InvalidInput for a text that is no model's name.
    """
    if provider not in PROVIDERS:
        raise NotFound("no such provider")
    if not model_id or len(model_id) > _MAX_MODEL_LENGTH or not model_id.isprintable() or " " in model_id:
        raise InvalidInput("name a model as the provider spells it", field="model")
    model = f"{provider}/{model_id}"
    with transaction.atomic():
        Job.objects.filter(id=job_id(_PING, provider)).exclude(status__in=ACTIVE).delete()
        job = start(caller, _PING, {"model": model}, title=f"Test of {provider}", key=provider)
        audit.record(caller.name, "connection.tested", "provider", provider, model=model)
    return job


def connection_test(provider: str) -> Job | None:
    """The last test of a provider's connection, or the one under way."""
    return Job.objects.filter(id=job_id(_PING, provider)).first()


def start(
    caller: Principal,
    kind: str,
    arguments: Mapping[str, Any],
    *,
    title: str = "",
    file: tuple[str, bytes] | None = None,
    key: str = "",
) -> Job:
    """A job of a kind, as `add_job` makes it."""
    known = KINDS[kind]
    return add_job(caller, kind, arguments, queue_name=known.queue, title=title or known.title, file=file, key=key)
