"""The ledger of a run: its attempts and events, written as they happen. Each call stands there before it is made."""

from __future__ import annotations

import hashlib
import logging
import re
import uuid
import zlib
from collections.abc import Mapping
from typing import Any

import msgspec
from django.db import transaction
from django.utils import timezone
from msgspec import Struct

from memory import bodies
from memory.errors import ProviderError
from memory.fragments import cut
from memory.messages.halves import storable
from memory.messages.stored import StoredMessage
from memory.messages.values import write_json
from memory.models import Attempt, Run, Thread
from memory.processors import Turn
from memory.processors.calls import AttemptRecord, Call
from memory.processors.loop import TurnLoop
from memory.providers.http import headers_for, url_for
from memory.services import rule_use
from memory.services.feed import Feed, write_events
from memory.services.preview import placed
from memory.services.streams import LAST
from memory.statements import insert_row, update_rows

log = logging.getLogger(__name__)

OPEN = "open"
_MAX_STATE_BYTES = 256 * 1024
_SHOWN_ERROR = 2000
# The body is packed before the call is made, so quickly rather than tightly.
_PACKING = 1


SETUP_FIELDS = (
    "id",
    "name",
    "model",
    "fallback_models",
    "instructions",
    "tools",
    "settings",
    "input_processors",
    "output_processors",
    "error_processors",
    "max_steps",
    "max_processor_retries",
    "model_max_retries",
)
"""Of an agent, what its calls depend on."""


class RunLost(Exception):
    """Another process has closed the run, whose lease was not renewed: it is no longer ours to write."""


class Ledger:
    """Writes what happens in a run as it happens, and tells its feed once that is written."""

    def __init__(self, run: Run, feed: Feed) -> None:
        self.run, self.feed = run, feed
        self.rules_hash = ""
        self.message_ids: list[str] = []
        self.answers_run = ""
        """Id of the run whose tool calls this one brings the results of, until that is on record."""
        self.loop: TurnLoop | None = None
        self._key = ""

    @property
    def capture(self) -> str:
        """What is kept of the run's calls: full, changes or off."""
        return self.run.agent.capture if self.run.agent is not None else "full"

    def event(self, type: str, data: Mapping[str, Any], *, is_last: bool = False) -> None:
        events = [*self.feed.take_unwritten(), self.feed.number(type, data)]
        write_events(self.run.id, events)
        transaction.on_commit(lambda: self.feed.tell(events, is_over=is_last))

    def opened(self, call: Call) -> None:
        """A call that is about to be made, with all that another process would need to go on after it."""
        model, encoded = call.model, call.request.encoded
        connection, ref = model.connection, model.ref  # type: ignore[attr-defined]
        self._key = connection.key.strip()
        request, setup = (
            (cut(encoded.body), cut(self._setup(), as_one=True)) if self.capture == "full" else (None, None)
        )
        # Made before the transaction, in which others wait for their turn.
        attempt = Attempt(
            run_id=self.run.id,
            number=call.number,
            provider=ref.provider,
            protocol=model.protocol,
            model_id=ref.model_id[:200],
            url=url_for(connection, encoded)[:600],
            request_headers=shown_headers(headers_for(connection, with_key=False), self._key),
            request_record=request.record if request is not None else b"",
            setup_record=setup.record if setup is not None else b"",
            request_size=len(encoded.body),
            request_sha256=hashlib.sha256(encoded.body).hexdigest(),
            decision=OPEN,
            started_at=call.started_at,
        )
        mine = {"id": self.run.id, "owner": self.run.owner, "finished_at": None}
        kept = {"attempt_count": call.number, "rules_hash": self.rules_hash, "state": self.state(), "due_at": None}
        with transaction.atomic():
            if request is not None and setup is not None:
                bodies.keep(request, setup)
            insert_row(attempt)
            if not update_rows(Run, mine, **kept):
                raise RunLost(self.run.id)
            self._answer_waiting()

    def explained(self, call: Call) -> None:
        """What was changed in the request of a call and why; it takes a while, so the call need not wait for it."""
        if self.capture == "off" or not (call.result.changes or call.result.findings):
            return
        placed_changes = placed(call.result, call.messages, call.request.encoded)
        found = list(call.result.findings)
        changes, changes_cut = bodies.text_record(write_json(placed_changes))
        findings, findings_cut = bodies.text_record(write_json(found))
        with transaction.atomic():
            bodies.keep(*(made for made in (changes_cut, findings_cut) if made is not None))
            update_rows(
                Attempt,
                {"run_id": self.run.id, "number": call.number},
                changes=changes,
                findings=findings,
                changes_record=changes_cut.record if changes_cut is not None else b"",
                findings_record=findings_cut.record if findings_cut is not None else b"",
            )
            model = call.model
            rule_use.record(self.run, model.ref.provider, model.protocol, placed_changes, found, call.started_at)

    def attempt(self, record: AttemptRecord) -> None:
        """What became of the open call, and everything that was decided about it; before any wait."""
        error, exchange = record.error, getattr(record.reply, "exchange", None)
        status, headers, came = None, {}, b""
        if exchange is not None:
            status, headers, came = exchange.status, exchange.headers, exchange.body
        elif isinstance(error, ProviderError):
            status, headers = error.status_code, error.response_headers
            came = error.received or (error.response_body or "").encode("utf-8", "replace")
        with transaction.atomic():
            is_ours = update_rows(
                Attempt,
                {"run_id": self.run.id, "number": record.number, "decision": OPEN},
                status=status,
                response_headers=shown_headers(headers, self._key),
                response_body=zlib.compress(came, _PACKING) if came and self.capture == "full" else b"",
                response_size=len(came),
                provider_request_id=storable(getattr(error, "request_id", "") or _request_id(headers))[:200],
                error_class=getattr(error, "error_class", "internal")[:64] if error else "",
                error_message=without_key(storable(str(error)), self._key)[:_SHOWN_ERROR] if error else "",
                decision=record.decision,
                reason=storable(record.reason),
                asked_by=record.asked_by,
                matched=storable(record.matched)[:200],
                delay_wanted_ms=record.delay_wanted_ms,
                delay_granted_ms=record.delay_granted_ms,
                usage=_plain(getattr(record.reply, "usage", None)),
                finished_at=record.finished_at,
            )
            if not is_ours:
                raise RunLost(self.run.id)
            if record.decision == "retry" and record.matched and self.loop is not None:
                provider, protocol = self.loop.model.ref.provider, self.loop.model.protocol
                rule_use.record(self.run, provider, protocol, (), (), record.finished_at, asked=record.matched)
            self.event("attempt", {"number": record.number, "decision": record.decision, "status": status})

    def waited(self, number: int, slept_ms: float) -> None:
        update_rows(Attempt, {"run_id": self.run.id, "number": number, "slept_ms": None}, slept_ms=slept_ms)

    def replied(self, message: StoredMessage, reply: Any) -> None:
        """The answer, safe before any output processor runs. It gets its id here, so that it is written once."""
        message.setdefault("id", f"msg_{uuid.uuid4().hex}")
        self.event("message", {"message": message, "finish_reason": reply.finish_reason})

    def close(self, status: str, *, turn: Turn | None = None, error_class: str = "", error: str = "") -> None:
        """End the run, give its thread free, and say there how the last run went."""
        loop, error = self.loop, storable(error)
        if loop is not None and turn is not None:
            self.message_ids = [message["id"] for message in loop.messages.unsaved()]
        now = timezone.now()
        ended = {
            "finished_at": now,
            "status": status,
            "state": self.state(),
            "finish_reason": (turn.finish_reason if turn else "error")[:32],
            "usage": turn.usage if turn else {},
            "message_ids": self.message_ids,
            "error_class": error_class[:64],
            "error_message": error[:_SHOWN_ERROR],
            "lease_until": None,
            "due_at": None,
        }
        with transaction.atomic():
            if not update_rows(Run, {"id": self.run.id, "finished_at": None}, **ended):
                raise RunLost(self.run.id)
            for failure in loop.chain.failures if loop is not None else ():
                self.event("processor-failed", msgspec.structs.asdict(failure))
            update_rows(
                Attempt,
                {"run_id": self.run.id, "decision": OPEN},
                decision=status if status in ("cancelled", "interrupted") else "give-up",
                reason=error or "The run ended before an answer came.",
                error_class=error_class[:64],
                finished_at=now,
            )
            if turn is not None:
                self._answer_waiting()
            shown = f"{error_class}: {error}"[:500] if error else ""
            mine = {"id": self.run.thread_id, "active_run": self.run.id}
            if not update_rows(Thread, mine, active_run="", last_error=shown):
                update_rows(Thread, {"id": self.run.thread_id}, last_error=shown)
            self.event(LAST, {"status": status}, is_last=True)
        # They know each other: all that the run held would stay until a collection that holds up everything.
        self.loop = None

    def _answer_waiting(self) -> None:
        """End the run that waited for this one's results: now that its state is in this one's row, it is done with."""
        if self.answers_run:
            update_rows(Run, {"id": self.answers_run, "status": "waiting"}, status="succeeded")
            self.answers_run = ""

    def _setup(self) -> bytes:
        """The agent as it is for this call, and the switches of its rules; the same bytes while nothing changes."""
        agent = self.run.agent
        values = {name: getattr(agent, name) for name in SETUP_FIELDS} if agent is not None else None
        switches = sorted(self.loop.chain.switches.as_dict().items()) if self.loop is not None else []
        return write_json({"agent": values, "rules": dict(switches)}).encode()

    def state(self) -> str:
        """What another loop needs to go on where this run's is."""
        if self.loop is None:
            return self.run.state
        chain = self.loop.chain
        # Kept until it ends only: what a run's messages became matters to nobody after that.
        going_on = {"loop": self.loop.kept()} if self.loop.number and not self.loop.steps else {}
        kept = {"processors": chain.state, "counts": chain.counts, "steps": self.loop.step, **going_on}
        text = write_json(kept)
        if len(text) > _MAX_STATE_BYTES:
            log.warning("the processors' state of run %s is too large and is not kept", self.run.id)
            counts = {"loop": {**going_on["loop"], "changed": []}} if going_on else {}
            return write_json({"counts": chain.counts, "steps": self.loop.step, **counts})
        return text


_SECRET = re.compile(r"auth|cookie|credential|key|password|secret|session|signature|token", re.I)
_HARMLESS = re.compile(r"ratelimit|rate-limit|tokens|anthropic-version", re.I)
# A shorter key, such as a local host's dummy, would blank harmless words.
_SHORTEST_KEY = 8


def shown_headers(headers: Mapping[str, str], key: str = "") -> dict[str, str]:
    """Headers as they may be kept: no value of one whose name says that it is secret, and the key nowhere."""
    return {
        name: "[hidden]" if _SECRET.search(name) and not _HARMLESS.search(name) else without_key(value, key)
        for name, value in headers.items()
    }


def without_key(text: str, key: str) -> str:
    """The text with the key blanked."""
    return text.replace(key, "[key]") if len(key) >= _SHORTEST_KEY else text


def _request_id(headers: Mapping[str, str]) -> str:
    return next((headers[name] for name in ("request-id", "x-request-id", "x-amzn-requestid") if name in headers), "")


def _plain(usage: Any) -> dict[str, int]:
    return msgspec.to_builtins(usage) if isinstance(usage, Struct) else {}
