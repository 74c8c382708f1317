"""What the database itself allows of the ledger: attempts are written open and completed once, events never change.

Only what a run marks as removed (`removed_at`) may go: by retention, or with its thread. Then bodies and details may be
emptied, and rows deleted; what was called and decided can't be changed even so. The statements for `triggers`.
"""

from __future__ import annotations

REFUSED = "the ledger is append-only"

_FIXED = "run_id number provider protocol model_id url request_size request_sha256 started_at"
_SENT = "request_headers request_body request_record setup_record"
_EXPLAINED = (("changes", "changes_record", "'[]'"), ("findings", "findings_record", "'[]'"))
_CAME = "response_headers response_body"
_RESULT = (
    "status response_size provider_request_id error_class error_message decision reason asked_by matched"
    " delay_wanted_ms delay_granted_ms usage finished_at"
)


def _changed(names: str, unlike: str) -> str:
    return "(" + " OR ".join(f"OLD.{name} {unlike} NEW.{name}" for name in names.split()) + ")"


def _is_refused(unlike: str, is_kept: str, empty_bytes: str) -> str:
    """The condition under which an update of an attempt is refused."""
    explained = " OR ".join(
        f"({_changed(f'{text} {record}', unlike)} AND NOT (OLD.{text} = {empty} AND OLD.{record} = {empty_bytes}))"
        for text, record, empty in _EXPLAINED
    )
    return f"""
{_changed(_FIXED, unlike)}
OR ({_changed(_RESULT, unlike)} AND OLD.decision <> 'open')
OR ({_changed("slept_ms", unlike)} AND OLD.slept_ms IS NOT NULL)
OR ({is_kept} AND ({_changed(_SENT, unlike)} OR {explained} OR ({_changed(_CAME, unlike)} AND OLD.decision <> 'open')))
"""


_IS_KEPT = "EXISTS (SELECT 1 FROM memory_run WHERE id = OLD.run_id AND removed_at IS NULL)"

# Table and trigger by name; on PostgreSQL each has a function of the trigger's name.
TRIGGERS = {
    "memory_attempt_update": "memory_attempt",
    "memory_attempt_delete": "memory_attempt",
    "memory_runevent_update": "memory_runevent",
    "memory_runevent_delete": "memory_runevent",
}

_CONDITIONS_SQLITE = {
    "memory_attempt_update": _is_refused("IS NOT", _IS_KEPT, "x''"),
    "memory_attempt_delete": _IS_KEPT,
    "memory_runevent_update": "1",
    "memory_runevent_delete": _IS_KEPT,
}
_CONDITIONS_POSTGRESQL = {
    **_CONDITIONS_SQLITE,
    "memory_attempt_update": _is_refused("IS DISTINCT FROM", _IS_KEPT, "''::bytea"),
    "memory_runevent_update": "true",
}


def statements(vendor: str) -> list[str]:
    """What makes the triggers of a database of this vendor."""
    out = []
    for name, table in TRIGGERS.items():
        when = name.rsplit("_", 1)[1].upper()
        if vendor == "sqlite":
            out.append(
                f"CREATE TRIGGER {name} BEFORE {when} ON {table} WHEN {_CONDITIONS_SQLITE[name]}"
                f" BEGIN SELECT RAISE(ABORT, '{REFUSED}'); END"
            )
        else:
            row = "OLD" if when == "DELETE" else "NEW"
            out.append(
                f"CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                f" IF {_CONDITIONS_POSTGRESQL[name]} THEN RAISE EXCEPTION '{REFUSED}'"
                f" USING ERRCODE = 'integrity_constraint_violation'; END IF; RETURN {row}; END $$"
            )
            out.append(f"CREATE TRIGGER {name} BEFORE {when} ON {table} FOR EACH ROW EXECUTE FUNCTION {name}()")
    return out
