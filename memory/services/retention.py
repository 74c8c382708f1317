"""How long runs keep what was said in them: bodies, details of attempts and events go when their time is over.

What was called, what came of it and what was decided stays: hashes, sizes, statuses, reasons.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.utils import timezone
from msgspec import Struct

from memory import bodies
from memory.models import Attempt, Fragment, Run, RunEvent

log = logging.getLogger(__name__)

ANSWERED = ("succeeded", "waiting")
_BATCH = 200
_FRAGMENTS_PER_BATCH = 1000
# A fragment may be a day younger than it seems, and clocks of processes differ.
_SLACK = timedelta(days=2)
_DEFAULT_DAYS = 30


class Removed(Struct, frozen=True):
    """How much went."""

    runs: int
    events: int
    fragments: int


def remove_expired(*, now: datetime | None = None) -> Removed:
    """Remove what is past its time, in batches that are each a transaction of their own. May be broken off and run
    again, and beside another one."""
    at = now or timezone.now()
    runs = events = 0
    while True:
        went = _remove_runs(at)
        if went is None:
            break
        runs, events = runs + went[0], events + went[1]
    removed = Removed(runs, events, _remove_fragments(at))
    if any(getattr(removed, name) for name in removed.__struct_fields__):
        log.info("retention: %d runs, %d events, %d fragments removed", removed.runs, removed.events, removed.fragments)
    return removed


def _expired(at: datetime) -> Q:
    answered, failed = settings.COMPAT_ADMIN_KEEP_ANSWERED_DAYS, settings.COMPAT_ADMIN_KEEP_FAILED_DAYS
    wanted = Q(pk__in=[])
    if answered:
        wanted |= Q(status__in=ANSWERED, finished_at__lt=at - timedelta(days=answered))
    if failed:
        wanted |= ~Q(status__in=ANSWERED) & Q(finished_at__lt=at - timedelta(days=failed))
    return wanted


def _remove_runs(at: datetime) -> tuple[int, int] | None:
    """Take a batch of runs; how many, and how many events. None when there are no more."""
    expired = Run.objects.filter(_expired(at), removed_at=None)
    ids = list(expired.order_by("finished_at").values_list("id", flat=True)[:_BATCH])
    if not ids:
        return None
    with transaction.atomic():
        # Marked first: the database lets nothing else of a run's ledger go (`append_only`).
        count = Run.objects.filter(id__in=ids, removed_at=None).update(removed_at=at, input="[]", settings="{}")
        # What waits for tool results goes on with its state, however late they come.
        Run.objects.filter(id__in=ids).exclude(status="waiting").update(state="{}")
        Attempt.objects.filter(run__in=ids).update(
            request_headers={},
            request_body=b"",
            request_record=b"",
            setup_record=b"",
            changes="[]",
            changes_record=b"",
            findings="[]",
            findings_record=b"",
            response_headers={},
            response_body=b"",
        )
        events, _ = RunEvent.objects.filter(run__in=ids).delete()
    return count, events


def _remove_fragments(at: datetime) -> int:
    """Remove fragments that nothing kept is made of: those not needed for longer than the shortest time to keep.

    What is kept longer makes its fragments young again first. Who needs one that is about to go writes it again.
    """
    days = (settings.COMPAT_ADMIN_KEEP_ANSWERED_DAYS, settings.COMPAT_ADMIN_KEEP_FAILED_DAYS)
    shortest = timedelta(days=min(filter(None, days), default=_DEFAULT_DAYS))
    _renew(at, shortest)
    limit = (at - shortest - _SLACK).date()
    count, last = 0, b""
    while True:
        with transaction.atomic():
            old = Fragment.objects.filter(used_on__lt=limit, key__gt=last).order_by("key")
            # In a fixed order and past what somebody is just writing, so that nobody waits for the other in a circle.
            found = old.select_for_update(skip_locked=True).values_list("key", flat=True)
            keys = [bytes(key) for key in found[:_FRAGMENTS_PER_BATCH]]
            if keys:
                went, _ = Fragment.objects.filter(key__in=keys, used_on__lt=limit).delete()
                count += went
        if len(keys) < _FRAGMENTS_PER_BATCH:
            return count
        last = keys[-1]


def _renew(at: datetime, shortest: timedelta) -> None:
    kept = Attempt.objects.filter(run__removed_at=None, started_at__lt=at - shortest + timedelta(days=1))
    names = ("request_record", "setup_record", "changes_record", "findings_record")
    last = 0
    while rows := list(kept.filter(pk__gt=last).order_by("pk").values_list("pk", *names)[:_BATCH]):
        records = [bytes(record) for _, *records in rows for record in records if record]
        bodies.renew(records, today=at.date(), older_than=(at - shortest).date())
        last = rows[-1][0]
