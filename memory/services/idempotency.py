"""Requests that may be sent twice: the first answer to an `Idempotency-Key` is kept for a day and given again.

A row is claimed before the work begins. Whoever claimed it and is gone loses it when its hold runs out.
"""

from __future__ import annotations

import zlib
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.utils import timezone
from msgspec import Struct

from memory.errors import Conflict, InvalidInput
from memory.models import IdempotentAnswer
from memory.principal import can_be_looked_up

KEPT_FOR = timedelta(hours=24)
FIELD = "Idempotency-Key"
MAX_KEY_LENGTH = 255


class Answer(Struct, frozen=True):
    """What was answered. One that was streamed has no body but the run whose events it was."""

    status: int
    content_type: str
    body: bytes
    run_id: str = ""


def claim(owner: str, key: str, fingerprint: str, *, hold: timedelta, now: datetime | None = None) -> int | Answer:
    """The row's id, when the work is the caller's to do and to `keep` or `release`; else the answer that is kept.

    `fingerprint` says which request it is. Raises Conflict (idempotency_running) while somebody else works on it,
    InvalidInput for a key that was used for another request, or that can't be one.
    """
    if not (0 < len(key) <= MAX_KEY_LENGTH and key.isprintable() and can_be_looked_up(key)):
        raise InvalidInput(f"expected 1 to {MAX_KEY_LENGTH} characters", field=FIELD)
    at = now or timezone.now()
    fresh = {"fingerprint": fingerprint, "created_at": at, "held_until": at + hold}
    try:
        with transaction.atomic():
            return IdempotentAnswer.objects.create(owner=owner, key=key, **fresh).pk
    except IntegrityError:
        found = IdempotentAnswer.objects.filter(owner=owner, key=key).first()
    if found is None:
        raise Conflict("the first request with this key was refused just now; send it again", code=_RUNNING)
    is_old = found.created_at <= at - KEPT_FOR
    if not is_old and found.fingerprint != fingerprint:
        raise InvalidInput("this key was used for another request", field=FIELD, code="idempotency_mismatch")
    if not is_old and found.status is not None:
        return Answer(found.status, found.content_type, zlib.decompress(found.body), found.run_id)
    if is_old or found.held_until <= at:
        mine = IdempotentAnswer.objects.filter(pk=found.pk, created_at=found.created_at, held_until=found.held_until)
        if mine.update(status=None, body=b"", run_id="", **fresh):
            return found.pk
    raise Conflict("the first request with this key is still being worked on", code=_RUNNING)


def keep(claimed: int, answer: Answer) -> None:
    """Keep the answer of a claimed request for its repeats."""
    IdempotentAnswer.objects.filter(pk=claimed).update(
        status=answer.status,
        content_type=answer.content_type[:100],
        body=zlib.compress(answer.body),
        run_id=answer.run_id,
    )


def release(claimed: int) -> None:
    """Forget a claimed request that had no effect, so that it can be made again."""
    IdempotentAnswer.objects.filter(pk=claimed, status=None).delete()


def forget_old_answers(*, now: datetime | None = None) -> int:
    """Delete the answers that are older than a day; how many."""
    old = (now or timezone.now()) - KEPT_FOR
    return IdempotentAnswer.objects.filter(created_at__lt=old).delete()[0]


_RUNNING = "idempotency_running"
