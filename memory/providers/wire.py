"""What every protocol module takes and gives: settings of a call, an encoded request, a decoded reply."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from msgspec import Struct

from memory.errors import ProviderError
from memory.messages.prompt import Part, Prompt


class Tool(Struct, frozen=True, omit_defaults=True):
    """A tool the model may call; its caller executes it. `raw` is a provider-run tool in that provider's spelling."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = {}
    raw: Mapping[str, Any] | None = None


class Settings(Struct, frozen=True, omit_defaults=True):
    """How one call is made. `extra` are further body keys in the protocol's own spelling, sent as they are."""

    model_id: str = ""
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    tools: tuple[Tool, ...] = ()
    tool_choice: str | Mapping[str, Any] | None = None
    """`auto`, `none`, `required` or `{"type": "tool", "toolName": ...}`."""
    extra: Mapping[str, Any] = {}


class Encoded(Struct, frozen=True):
    """A request ready to send: path below the base URL, the exact bytes, and where each part landed."""

    path: str
    body: bytes
    places: Mapping[tuple[int, int], str]
    """(index of prompt message, index of part) -> JSON pointer into the body; part -1 is the message itself."""


class Usage(Struct, frozen=True, omit_defaults=True):
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0


class Reply(Struct, frozen=True):
    """One answer: assistant parts in order, why it ended, what it cost.

    `finish_reason` is one of stop, length, tool-calls, content-filter, refusal, pause, error, other.
    """

    parts: tuple[Part, ...]
    finish_reason: str
    usage: Usage
    response_id: str = ""
    model_id: str = ""


class TextDelta(Struct, frozen=True, tag="text-delta"):
    text: str


class ReasoningDelta(Struct, frozen=True, tag="reasoning-delta"):
    text: str


class ToolInputDelta(Struct, frozen=True, tag="tool-input-delta"):
    """A fragment of a call's arguments as JSON text; the first one of a call may be empty."""

    call_id: str
    name: str
    text: str


class Finished(Struct, frozen=True, tag="finished"):
    """The end of a stream: the whole reply, the same that the body of an unstreamed call would have given."""

    reply: Reply


Chunk = TextDelta | ReasoningDelta | ToolInputDelta | Finished


class Imported(Struct, frozen=True):
    """A request body read back: its prompt (system messages included) and its settings."""

    prompt: Prompt
    settings: Settings


class WireModule(Protocol):
    """A protocol: what its module offers as plain functions."""

    PROTOCOL: str

    def encode_request(self, prompt: Prompt, settings: Settings, *, provider: str) -> Encoded: ...

    def as_stream(self, encoded: Encoded, *, provider: str) -> Encoded:
        """The same request, asking for a streamed answer."""
        ...

    def decode_request(self, body: Mapping[str, Any], *, provider: str) -> Imported: ...

    def decode_reply(self, body: Mapping[str, Any], *, provider: str) -> Reply: ...

    def decode_stream(self, pieces: Iterable[bytes], *, provider: str) -> Iterator[Chunk]:
        """Typed chunks as they come, whatever the chunking; the last one is `Finished`.

        Raises ProviderError for an error inside the stream and for one that ends without its end mark; its `partial`
        is the Reply of what came before (None when nothing did).
        """
        ...

    def stream_of(self, events: Iterable[Mapping[str, Any]]) -> bytes:
        """The bytes of a stream, for `decode_stream`, from its events as the vendor's client gives them.

        Raises InvalidInput for events of another form.
        """
        ...

    def decode_error(self, status: int, headers: Mapping[str, str], body: str, *, provider: str) -> ProviderError: ...
