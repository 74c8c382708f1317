"""Credentials that are more than a key: they sign each request, or come with a token that expires.

What is missing on this machine is a ProviderError of the class `configuration`, which nobody tries again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from msgspec import Struct

from memory.errors import ProviderError


class Signed(Struct, frozen=True):
    """Headers to add to a request. `secret` is the part of them that nothing may show; empty where there is none."""

    headers: Mapping[str, str]
    secret: str = ""

    def __repr__(self) -> str:
        return f"Signed({sorted(self.headers)})"

    __str__ = __repr__


class Fetched(Struct, frozen=True):
    """What a token endpoint answered."""

    status: int
    headers: Mapping[str, str]
    data: bytes

    def __repr__(self) -> str:
        return f"Fetched({self.status})"

    __str__ = __repr__


Fetch = Callable[[str, str, Mapping[str, str], bytes | None, float | None], Fetched]
"""Method, URL, headers, body, seconds to wait at most. Raises ProviderError when no answer came."""


class Signer(Protocol):
    """Makes the headers that prove who calls. May be shared by threads."""

    def sign(self, url: str, headers: Mapping[str, str], body: bytes, fetch: Fetch) -> Signed:
        """The proof for a POST of exactly these bytes. Raises ProviderError when there is none to be had."""
        ...

    def refused(self, signed: Signed) -> None:
        """This proof was answered with 401: the next one is made from scratch."""
        ...


def misconfigured(message: str, *, code: str) -> ProviderError:
    """The error for what somebody has to put right on this machine first."""
    return ProviderError(message, error_class="configuration", is_retryable=False, error_code=code)


def missing_extra(what: str, extra: str) -> ProviderError:
    """The error for a library that is not installed: what can't be done without it, and the command that helps."""
    return misconfigured(
        f"{what} needs a library that is not installed: pip install 'compat-admin[{extra}]'", code="missing_extra"
    )
