"""A run's events as server-sent events: while it goes on, and again from any point afterwards."""

from __future__ import annotations

from collections.abc import Iterator

from django.http import HttpResponse, HttpResponseBase, StreamingHttpResponse
from ninja import Router

from compat_admin.api.agents import turn_of
from compat_admin.api.auth import READ, RUN, ApiRequest
from compat_admin.api.documents import EVENT_STREAM, documents
from compat_admin.api.repeats import RUN_HOLD, repeatable
from compat_admin.api.schemas import GenerateWanted
from memory.access import run_for
from memory.errors import InvalidInput
from memory.services import runs, streams

router = Router(tags=["runs"])


@router.post("/agents/{agent_id}/stream", auth=RUN, **documents(str, body=GenerateWanted, media_type=EVENT_STREAM))
@repeatable(hold=RUN_HOLD, stream=lambda run_id: _response(streams.Reading(run_id)))
def stream(request: ApiRequest, agent_id: str) -> HttpResponseBase:
    """Run one turn and stream it: `started` as soon as it is on record, `text-delta`, `reasoning-delta`,
    `tool-input-delta`, `attempt` (what came before a `retry` does not count), `message`, `finished`. The run goes on
    when the reader leaves."""
    turn, _ = turn_of(request)
    return _response(runs.start_stream(request.auth, agent_id, turn))


@router.get("/runs/{run_id}/events", auth=READ, **documents(str, media_type=EVENT_STREAM))
def read_events(request: ApiRequest, run_id: str) -> HttpResponseBase:
    """A run's events from the beginning, or behind the number in `Last-Event-ID`."""
    run = run_for(request.auth, run_id)
    last = request.headers.get("Last-Event-ID", "").strip()
    if last and not (last.isdecimal() and len(last) <= 9):
        raise InvalidInput("Last-Event-ID: expected the number of an event", field="Last-Event-ID")
    return _response(streams.Reading(run.id, after=int(last or 0)))


def _response(events: streams.Reading) -> HttpResponse | StreamingHttpResponse:
    return StreamingHttpResponse(
        _Lines(events),
        content_type=EVENT_STREAM,
        # A proxy that waits for more would make a stream of words a page that comes at once.
        headers={"X-Accel-Buffering": "no", "Cache-Control": "no-store", "X-Run-Id": events.run_id},
    )


class _Lines:
    """The events as lines. Closed by Django with the response, also where nobody read it."""

    def __init__(self, events: streams.Reading) -> None:
        self._events = events
        self.close = events.close

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        event = next(self._events)
        if event is None:
            return b": still here\n\n"
        number, type, data = event
        # As bytes: to find out in what a text is to be written Django reads its content type each time.
        return f"id: {number}\nevent: {type}\ndata: {data}\n\n".encode()
