"""The one writer of audit events."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from memory.models import AuditEvent


def record(actor: str, action: str, target_type: str, target_id: str, **detail: Any) -> None:
    """Write who did what, in the transaction that does it. `detail` holds JSON values.

    Raises TransactionManagementError outside a transaction: the event and the change must stand or fall together.
    """
    if not transaction.get_connection().in_atomic_block:
        raise transaction.TransactionManagementError(f"{action} is recorded outside the transaction that does it")
    AuditEvent.objects.create(actor=actor, action=action, target_type=target_type, target_id=target_id, detail=detail)
