"""What a run loop calls and tells: models, their calls, what becomes of each, and how a turn ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from msgspec import Struct

from memory.messages.prompt import Part, ToolCall
from memory.messages.stored import StoredMessage
from memory.processors.base import PromptResult

Wait = Callable[[float], bool]
"""Waits so many seconds; True when the run was cancelled meanwhile."""


class ModelReply(Protocol):
    """What a call gives back."""

    @property
    def parts(self) -> tuple[Part, ...]: ...
    @property
    def finish_reason(self) -> str: ...


class Model(Protocol):
    """A model to call: encodes a prompt to the bytes of its request, and sends those bytes.

    One that lets step hooks change its settings has `for_step(settings: StepSettings) -> Model` as well.
    """

    ref: Any
    protocol: str

    @property
    def tool_names(self) -> Sequence[str]:
        """Names of the declared tools."""
        ...

    @property
    def call_settings(self) -> Mapping[str, Any]:
        """Further settings of the request, in the protocol's spelling."""
        ...

    def encode(self, result: PromptResult) -> Any:
        """The request of a prompt; an object with `body: bytes`."""
        ...

    def send(self, request: Any) -> Any:
        """The reply. Raises ProviderError (or what the transport raises) when there is none."""
        ...


class AttemptRecord(Struct, frozen=True, kw_only=True):
    """One call as the ledger keeps it; written before any wait that follows it."""

    number: int
    request: Any
    prompt: PromptResult
    messages: Sequence[StoredMessage]
    reply: Any = None
    error: BaseException | None = None
    decision: str
    """answered, retry, fallback, give-up, cancelled or stopped."""
    reason: str
    asked_by: str = ""
    matched: str = ""
    delay_wanted_ms: float | None = None
    delay_granted_ms: float | None = None
    started_at: datetime
    finished_at: datetime


class Call(Struct):
    """A request that is ready to be sent, as attempt `number` of its turn."""

    number: int
    model: Model
    result: PromptResult
    request: Any
    messages: Sequence[StoredMessage]
    started_at: datetime
    sha256: str = ""
    """Of the body that was really sent, where that was in an earlier life of the turn."""


class Pause(Struct, frozen=True):
    """Another attempt was granted, after so many seconds."""

    seconds: float
    number: int
    reason: str


class Recorder(Protocol):
    """The ledger of a run."""

    def opened(self, call: Call) -> None:
        """A call is about to be made."""
        ...

    def attempt(self, record: AttemptRecord) -> None:
        """What became of it, and what was decided."""
        ...

    def waited(self, number: int, slept_ms: float) -> None: ...
    def replied(self, message: StoredMessage, reply: Any) -> None:
        """The answer as it will be stored, before any output hook ran."""
        ...


class NoRecorder:
    """Keeps nothing."""

    def opened(self, call: Call) -> None:
        return

    def attempt(self, record: AttemptRecord) -> None:
        return

    def waited(self, number: int, slept_ms: float) -> None:
        return

    def replied(self, message: StoredMessage, reply: Any) -> None:
        return


class Turn(Struct, kw_only=True):
    """How a turn ended: the answer's text, open calls of client tools, what it cost, how many calls it took."""

    text: str
    finish_reason: str
    tool_calls: tuple[ToolCall, ...]
    usage: dict[str, int]
    attempt_count: int
    step_count: int
