"""Every failure with a name.

CompatAdminError
├── InvalidInput            what the caller gave does not fit (field errors with places)
│   └── InvalidOption       a processor option, named
├── NotFound                absent, or not the caller's: both look alike
├── Forbidden               the caller's key lacks a scope, or acts for another resource
├── Conflict                an id is taken, a run is active
├── Busy                    this process does as much as it may
├── ExternalMessageList     a processor returned another list than the one it was given
├── Tripwire                a processor called abort()
├── EncodingError           a protocol can't say what the prompt holds
├── ProviderError           a provider refused, failed or broke off
└── RunFailed               no retry was granted; the run keeps what happened
    ├── RunStopped          a processor ended it
    └── RunCancelled        it was cancelled during a call or a wait
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct


class FieldError(Struct, frozen=True):
    """One thing wrong with an input: `field` is a place such as `messages[0].content.parts`."""

    field: str
    message: str


class CompatAdminError(Exception):
    """Base of all failures with a name. `code` is stable and shown to callers."""

    code = "error"


class InvalidInput(CompatAdminError):
    code = "invalid_input"

    def __init__(self, message: str, *, field: str = "", code: str = "", errors: tuple[FieldError, ...] = ()) -> None:
        super().__init__(message)
        self.errors = errors or ((FieldError(field, message),) if field else ())
        self.code = code or self.code


class InvalidOption(InvalidInput):
    code = "invalid_option"


class NotFound(CompatAdminError):
    code = "not_found"


class Forbidden(CompatAdminError):
    code = "forbidden"


class Conflict(CompatAdminError):
    """`run_id` names the run that is in the way, where it is one."""

    code = "conflict"

    def __init__(self, message: str, *, code: str = "", run_id: str = "") -> None:
        super().__init__(message)
        self.code = code or self.code
        self.run_id = run_id


class Busy(CompatAdminError):
    """This process does as much as it may; trying again in a moment helps."""

    code = "busy"


class ExternalMessageList(CompatAdminError):
    code = "PROCESSOR_RETURNED_EXTERNAL_MESSAGE_LIST"


class Tripwire(CompatAdminError):
    """A processor asked to end the run. `reason` is its text."""

    code = "stopped-by-processor"

    def __init__(
        self,
        reason: str,
        *,
        retry: bool = False,
        metadata: Mapping[str, Any] | None = None,
        processor_id: str = "",
    ) -> None:
        super().__init__(reason)
        self.reason, self.retry, self.metadata, self.processor_id = reason, retry, metadata or {}, processor_id


class EncodingError(CompatAdminError):
    """`place` names the message and part that the protocol can't express."""

    code = "cannot_encode"

    def __init__(self, message: str, *, place: str = "") -> None:
        super().__init__(f"{place}: {message}" if place else message)
        self.place = place


class ProviderError(CompatAdminError):
    """What a provider said instead of an answer.

    `error_class` is one of: transient, rate-limit, overloaded, quota, authentication, context-length,
    content-filter, bad-history, bad-request, connection, configuration (something is missing on this machine).
    `is_retryable` and `retry_after_ms` are set by the protocol's `decode_error`; without the flag it follows from the
    status (408, 409, 429, 5xx).
    `partial` is the reply that had come when a stream broke off.
    `request_id` is the provider's own. `response_body` is the text of the body, `response_headers` its headers.
    `received` are the bytes of a stream that had come, where the failure came in one.
    """

    code = "provider_error"

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        error_class: str = "bad-request",
        is_retryable: bool | None = None,
        retry_after_ms: float | None = None,
        response_headers: Mapping[str, str] | None = None,
        response_body: str | None = None,
        request_id: str = "",
        error_code: str = "",
        data: Any = None,
        partial: Any = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.partial = partial
        self.status_code = status
        self.error_class = error_class
        self.is_retryable = retryable_status(status) if is_retryable is None else is_retryable
        self.retry_after_ms = retry_after_ms
        self.response_headers = dict(response_headers or {})
        self.response_body = response_body
        self.request_id = request_id
        self.error_code = error_code
        self.data = data
        self.received = b""


def retryable_status(status: int | None) -> bool:
    """Whether a provider error without a flag of its own is worth another try: 408, 409, 429 and 5xx."""
    return status is not None and (status in (408, 409, 429) or status >= 500)


class RunFailed(CompatAdminError):
    code = "run_failed"

    def __init__(self, message: str, *, run_id: str = "", attempt_count: int = 0) -> None:
        super().__init__(message)
        self.run_id, self.attempt_count = run_id, attempt_count


class RunStopped(RunFailed):
    code = "stopped-by-processor"


class RunCancelled(RunFailed):
    code = "cancelled"
