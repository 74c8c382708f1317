"""What the readers of server-sent streams have in common: how a stream ends, well or badly."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from msgspec.structs import replace

from memory.errors import InvalidInput, ProviderError
from memory.messages.halves import read_mended
from memory.providers.classify import classify
from memory.providers.sse import Event, events
from memory.providers.wire import Chunk, Encoded, Finished, Reply


class Reader(Protocol):
    """Puts one answer together from its events."""

    @property
    def has_ended(self) -> bool:
        """Whether the end mark came: what follows is no part of the answer and is not waited for."""
        ...

    @property
    def is_whole(self) -> bool:
        """Whether the answer is complete, should no more come."""
        ...

    def take(self, event: Event) -> Iterable[Chunk]:
        """What an event adds. Raises ProviderError for an error, and for what can't be read."""
        ...

    def reply(self) -> Reply:
        """The answer. Raises ProviderError when what came can't be read as one."""
        ...

    def partial(self) -> Reply:
        """What came so far, without calls whose arguments are not complete. Raises as `reply` does."""
        ...


def read_stream(pieces: Iterable[bytes], reader: Reader, *, provider: str) -> Iterator[Chunk]:
    """The chunks of a stream, `Finished` last. Raises ProviderError with its `partial` set."""
    try:
        for event in _with_whole_characters(events(pieces)):
            yield from reader.take(event)
            if reader.has_ended:
                break
        if not reader.is_whole:
            raise ProviderError(
                f"{provider}: the stream ended before the answer was complete",
                error_class="transient",
                is_retryable=True,
                error_code="stream_ended_early",
            )
        reply = reader.reply()
    except ProviderError as error:
        error.partial = _partial(reader)
        raise
    yield Finished(reply)


# An escaped half at the end of a text, and one at its beginning; a backslash before it would make it plain letters.
_CUT = re.compile(r'(?<!\\)((?:\\\\)*)(\\u[dD][89abAB][0-9a-fA-F]{2})"')
_REST = re.compile(r'"(\\u[dD][c-fC-F][0-9a-fA-F]{2})')


def _with_whole_characters(given: Iterable[Event]) -> Iterator[Event]:
    """The events, with a character that one of them ends in and the next begins with put into the latter.

    Some hosts cut their text between the halves of an emoji.
    """
    held = ""
    for event in given:
        data = event.data
        if held and (rest := _REST.search(data)):
            data, held = f"{data[: rest.start() + 1]}{held}{data[rest.start() + 1 :]}", ""
        if ("\\ud" in data or "\\uD" in data) and (cut := _CUT.search(data)):
            data, held = data[: cut.start(2)] + data[cut.end(2) :], cut[2]
        yield event if data is event.data else Event(event.name, data)


def _partial(reader: Reader) -> Reply | None:
    try:
        reply = reader.partial()
    except ProviderError:
        return None
    return replace(reply, finish_reason="error") if reply.parts else None


def object_of(event: Event, provider: str) -> Mapping[str, Any]:
    """The JSON object of an event. Raises ProviderError when there is none: for an `error` event what its text says."""
    try:
        value = read_mended(event.data)
    except InvalidInput:
        value = None
    if isinstance(value, Mapping):
        return value
    if event.name == "error":
        raise error_in(event, provider)
    raise unreadable(provider, "an event that is no JSON object", event)


def error_in(event: Event, provider: str) -> ProviderError:
    """The error that an event holds: it came with status 200, which says nothing."""
    return classify(provider, 200, {}, event.data)


def unreadable(provider: str, what: str, event: Event) -> ProviderError:
    return ProviderError(
        f"{provider}: a stream that can't be read: {what}",
        status=200,
        error_class="transient",
        is_retryable=True,
        response_body=event.data,
    )


def add_keys(encoded: Encoded, keys: bytes) -> Encoded:
    """The request with further keys at the end of its body, which is an object with at least one."""
    return Encoded(encoded.path, b"%b,%b}" % (encoded.body[:-1], keys), encoded.places)
