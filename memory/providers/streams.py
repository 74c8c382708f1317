"""What the readers of server-sent streams have in common: how a stream ends, well or badly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from msgspec.structs import replace

from memory.errors import InvalidInput, ProviderError
from memory.messages.characters import has_half, whole
from memory.messages.stored import decode_json
from memory.providers.classify import classify
from memory.providers.sse import Event, events
from memory.providers.wire import Chunk, Encoded, Finished, Reply, whole_reply


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
    """The chunks of a stream, `Finished` last, every text in whole characters. Raises ProviderError with its `partial`.

    Some hosts cut a character in two and send its halves in two events: the first waits for the second.
    """
    halves = _Halves()
    try:
        for event in events(pieces):
            for chunk in reader.take(event):
                if (whole := halves.joined(chunk)) is not None:
                    yield whole
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
    yield Finished(whole_reply(reply))


def _partial(reader: Reader) -> Reply | None:
    try:
        reply = reader.partial()
    except ProviderError:
        return None
    return whole_reply(replace(reply, finish_reason="error")) if reply.parts else None


class _Halves:
    """The first halves of characters that wait for their second, by what they are a piece of."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, str], str] = {}

    def joined(self, chunk: Chunk) -> Chunk | None:
        if isinstance(chunk, Finished):
            return chunk
        key = (type(chunk).__name__, getattr(chunk, "call_id", ""))
        if not self._waiting and not has_half(chunk.text):
            return chunk
        text = self._waiting.pop(key, "") + chunk.text
        if text and "\ud800" <= text[-1] <= "\udbff":
            self._waiting[key], text = text[-1], text[:-1]
        return replace(chunk, text=whole(text)) if text else None


def object_of(event: Event, provider: str) -> Mapping[str, Any]:
    """The JSON object of an event. Raises ProviderError when there is none: for an `error` event what its text says."""
    try:
        value = decode_json(event.data.encode("utf-8", "surrogatepass"))
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
