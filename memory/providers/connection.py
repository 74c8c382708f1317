"""How a provider is reached: its address, and the headers that show who calls."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlsplit, urlunsplit

import httpx
from msgspec import Struct
from msgspec.structs import replace

from memory.errors import InvalidInput
from memory.providers.entries import AuthStyle, entry_for
from memory.providers.signers import Fetch, Signed, Signer
from memory.providers.wire import Encoded

ANTHROPIC_VERSION = "2023-06-01"
MODEL = "{model}"
"""Stands in a base URL for the model of the call, as in Azure's addresses of deployments."""

_SECRET_HEADERS = frozenset(
    {
        "authorization",
        "proxy-authorization",
        "x-api-key",
        "api-key",
        "x-goog-api-key",
        "x-amz-security-token",
        "cookie",
    }
)


class Connection(Struct, frozen=True):
    """How to reach a provider: where, in which protocol, with which key. `headers` are sent with every call.

    `base_url` may hold `{model}` and a query (`?api-version=…`). A `signer` takes the place of a key.
    """

    provider: str
    protocol: str
    base_url: str
    key: str = ""
    headers: Mapping[str, str] = {}
    signer: Signer | None = None

    def __repr__(self) -> str:
        shown = "set" if self.key or self.signer else "none"
        return f"Connection({self.provider!r}, {self.protocol!r}, {self.base_url!r}, key={shown})"

    __str__ = __repr__

    def for_model(self, model_id: str) -> Connection:
        """This connection with its address completed for a model; itself where the address is the same for all."""
        if MODEL not in self.base_url:
            return self
        return replace(self, base_url=self.base_url.replace(MODEL, quote(model_id, safe="")))


class Outgoing(Struct, frozen=True):
    """A request's address and headers as they are sent. `secret` is what no error and no answer may show."""

    url: str
    headers: Mapping[str, str]
    secret: str
    signed: Signed | None = None

    def __repr__(self) -> str:
        return f"Outgoing({self.url!r}, {sorted(self.headers)})"

    __str__ = __repr__


def url_for(connection: Connection, encoded: Encoded) -> str:
    """Where a request goes. Raises InvalidInput when the connection has no http(s) address."""
    try:
        parts = urlsplit(connection.base_url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_usable = False
    if not is_usable:
        raise InvalidInput(f"{connection.provider} has no http or https address", field="base_url", code="bad_base_url")
    path, _, query = encoded.path.partition("?")
    queries = "&".join(text for text in (parts.query, query) if text)
    return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/") + path, queries, ""))


def headers_for(connection: Connection, *, with_key: bool) -> dict[str, str]:
    """The headers of a call. Without the key none that could hold a secret is given: fit to be shown.

    Raises InvalidInput, without the value, for one that no header can carry.
    """
    headers = {"content-type": "application/json", "accept": "application/json", "accept-encoding": "gzip, deflate"}
    if connection.protocol == "anthropic-messages":
        headers["anthropic-version"] = ANTHROPIC_VERSION
    headers |= {name.lower(): value for name, value in connection.headers.items()}
    for name, value in headers.items():
        _check_value(value, f"header {name}")
    if not with_key:
        return {name: value for name, value in headers.items() if name not in _SECRET_HEADERS}
    if key := connection.key.strip():
        _check_value(key, f"the key of {connection.provider}")
        match auth_style(connection.provider, connection.protocol, key):
            case "api-key" | "x-api-key" | "x-goog-api-key" as name:
                headers[name] = key
            case _:
                headers["authorization"] = f"Bearer {key}"
    return headers


def outgoing(
    connection: Connection, encoded: Encoded, fetch: Fetch, *, own: Mapping[str, str] | None = None
) -> Outgoing:
    """What is sent for a request, signed where the connection has a signer; `own` are headers of this call alone.

    Raises InvalidInput for an address that is none, ProviderError when there are no credentials to be had.
    """
    try:
        url = str(httpx.URL(url_for(connection, encoded)))
    except httpx.InvalidURL as error:
        raise InvalidInput(f"{connection.provider} has no usable address", field="base_url") from error
    headers = headers_for(connection, with_key=True) | dict(own or {})
    if connection.signer is None:
        return Outgoing(url, headers, connection.key.strip())
    signed = connection.signer.sign(url, headers, encoded.body, fetch)
    for value in signed.headers.values():
        _check_value(value, f"what the credentials of {connection.provider} made")
    return Outgoing(url, headers | dict(signed.headers), signed.secret, signed)


def auth_style(provider: str, protocol: str, key: str = "") -> AuthStyle:
    """How a key is shown: as the provider's own protocol wants it, else as the protocol does elsewhere."""
    entry = entry_for(provider)
    if protocol == entry.protocol or (entry.auth == "api-key" and protocol.startswith("openai-")):
        return next((style for start, style in entry.auth_by_key.items() if key.startswith(start)), entry.auth)
    return "x-api-key" if protocol == "anthropic-messages" else "bearer"


def _check_value(value: str, what: str) -> None:
    if not all(" " <= character <= "~" or character == "\t" for character in value):
        raise InvalidInput(f"{what} holds characters that a header can't carry", field="headers", code="bad_header")
