"""Where providers are reached: connection rows, the sandbox's address, one HTTP client for the process."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone
from msgspec import Struct

from memory import audit
from memory.access import Principal
from memory.errors import Conflict, InvalidInput, NotFound
from memory.messages.names import PROVIDERS, ModelRef, model_ref
from memory.models import Agent, Provider
from memory.principal import can_be_looked_up
from memory.providers import ENTRIES, ProviderEntry, entry_for, wire_module
from memory.providers.entries import address_for
from memory.providers.http import Client, Connection, Timeouts
from memory.services.keys import KEY_REFS, key_ref_problem, provider_key
from memory.services.secrets import looks_like_a_key
from memory.statements import load_row

SANDBOX = "sandbox:"
SANDBOX_KEY = "sandbox-takes-any-key"
MAX_HEADERS = 20
MAX_ADDRESS_LENGTH = 500
_API_VERSION = re.compile(r"api-version=[A-Za-z0-9.-]{1,40}", re.ASCII)
_HEADER_NAME = re.compile(r"[A-Za-z0-9-]+", re.ASCII)
_SECRET_NAME = re.compile(r"authorization|cookie|(^|-)key$|token|secret|password", re.IGNORECASE)


def target_model(text: str) -> ModelRef:
    """The model that `provider/model` means. Raises InvalidInput for another form or an unknown provider."""
    ref = model_ref(text)
    if not ref.provider or not ref.model_id:
        raise InvalidInput("expected provider/model, such as anthropic/claude-sonnet-4-5", field="model")
    if ref.provider not in PROVIDERS:
        raise InvalidInput(f"no provider is called {ref.provider!r}", field="provider")
    return ref


def connection_for(provider: str, *, with_key: bool, model_id: str = "") -> Connection:
    """The connection of a provider: its row, else its vendor's own address and conventional key variable.

    A row without an address means the vendor's own for the row's protocol.
    `model_id` completes an address that differs by model, as those of Azure's deployments do.
    Without `with_key` no key is looked up: enough to show what would be sent where. Raises InvalidInput when there is
    no address, no sandbox to take the place of it, or no key.
    """
    entry = entry_for(provider)
    row = load_row(Provider, provider)
    protocol = row.protocol if row else entry.protocol
    base_url = (row.base_url if row else "") or address_for(entry, protocol)
    key_ref = row.key_ref if row else _conventional(entry)
    headers = row.headers if row else {}
    if base_url.startswith(SANDBOX):
        root = settings.SANDBOX_URL
        if not root and with_key:
            raise InvalidInput(f"{provider} points at the sandbox, and none is running here", field="provider")
        address = f"{root or 'http://sandbox.invalid'}/{base_url.removeprefix(SANDBOX)}/v1"
        return Connection(provider, protocol, address, SANDBOX_KEY if with_key else "", headers)
    if not base_url:
        raise InvalidInput(f"{provider} has no address: add a connection for it", field="provider")
    key = provider_key(key_ref) if with_key else ""
    signer = None if isinstance(key, str) else key
    found = Connection(provider, protocol, base_url, key if isinstance(key, str) else "", headers, signer)
    return found.for_model(model_id)


# Showing connections


class ProviderItem(Struct, frozen=True):
    """A connection. `key_ref` names where its key is found; the key itself is never shown.

    `has_key` is true, too, for credentials that a cloud's own library looks for when a call is made.
    """

    id: str
    title: str
    protocol: str
    base_url: str
    key_ref: str
    has_key: bool
    headers: list[str]
    """Names of further headers."""
    is_own: bool
    """Whether it was set here; else it is the vendor's address and conventional variable."""


class AgentUse(Struct, frozen=True):
    """An agent that calls a model of a provider, at once or when others fail."""

    id: str
    name: str
    model_id: str
    is_fallback: bool


def connection_items() -> list[ProviderItem]:
    """Every provider and where it is reached: its own connection, else its vendor's address."""
    rows = Provider.objects.in_bulk()
    return [_item(entry, rows.get(id_)) for id_, entry in ENTRIES.items()]


def connection_item(provider: str) -> ProviderItem:
    """A provider and where it is reached. Raises NotFound."""
    entry = ENTRIES.get(provider)
    if entry is None:
        raise NotFound("no such provider")
    return _item(entry, Provider.objects.filter(id=provider).first())


def agents_by_provider() -> dict[str, list[AgentUse]]:
    """Who uses which provider, by the agents' names; an agent stands once with each of its models."""
    found: dict[str, list[AgentUse]] = {}
    for id_, name, model, fallbacks in Agent.objects.order_by("name", "id").values_list(
        "id", "name", "model", "fallback_models"
    ):
        for number, text in enumerate((model, *fallbacks)):
            ref = model_ref(text)
            found.setdefault(ref.provider, []).append(AgentUse(id_, name, ref.model_id, is_fallback=number > 0))
    return found


def _item(entry: ProviderEntry, row: Provider | None) -> ProviderItem:
    """Names of headers and of the key's place, never a value."""
    key_ref = row.key_ref if row else _conventional(entry)
    if not key_ref.startswith(KEY_REFS):
        key_ref = ""  # Somebody may have put the key itself there.
    protocol = row.protocol if row else entry.protocol
    return ProviderItem(
        id=entry.id,
        title=entry.title,
        protocol=protocol,
        base_url=(row.base_url if row else "") or address_for(entry, protocol),
        key_ref=key_ref,
        has_key=_has_key(key_ref),
        headers=sorted(row.headers) if row else [],
        is_own=row is not None,
    )


def _conventional(entry: ProviderEntry) -> str:
    return f"env:{entry.key_variable}" if entry.key_variable else ""


def _has_key(key_ref: str) -> bool:
    try:
        return bool(provider_key(key_ref))
    except InvalidInput:
        return False


# Setting connections


def create_connection(caller: Principal, provider: str, values: Mapping[str, Any]) -> Provider:
    """A provider's own connection. What is not given is as at its vendor.

    `values` may have base_url, protocol, key_ref and headers; an empty base_url is the vendor's own for the protocol.
    Raises InvalidInput with the field, Conflict (id_taken).
    """
    if provider not in PROVIDERS:
        raise InvalidInput(f"no provider is called {provider[:100]!r}", field="id")
    entry = entry_for(provider)
    row = Provider(id=provider, protocol=entry.protocol, base_url="", key_ref=_conventional(entry))
    _apply(row, values)
    try:
        with transaction.atomic():
            row.save(force_insert=True)
            audit.record(caller.name, "connection.created", "provider", provider, base_url=row.base_url)
    except IntegrityError as error:
        raise Conflict(f"{provider} has a connection already", code="id_taken") from error
    return row


def update_connection(caller: Principal, provider: str, values: Mapping[str, Any]) -> Provider:
    """The connection with the given fields replaced. Raises InvalidInput, NotFound."""
    row = Provider.objects.filter(id=provider).first() if can_be_looked_up(provider) else None
    if row is None:
        raise NotFound("this provider has no connection of its own")
    _apply(row, values)
    row.updated_at = timezone.now()
    with transaction.atomic():
        row.save()
        told = {"fields": sorted(values), "base_url": row.base_url}
        audit.record(caller.name, "connection.updated", "provider", provider, **told)
    return row


def delete_connection(caller: Principal, provider: str) -> None:
    """Take a provider's own connection away. Raises NotFound."""
    with transaction.atomic():
        if not can_be_looked_up(provider) or not Provider.objects.filter(id=provider).delete()[0]:
            raise NotFound("this provider has no connection of its own")
        audit.record(caller.name, "connection.deleted", "provider", provider)


def _apply(row: Provider, values: Mapping[str, Any]) -> None:
    if "protocol" in values:
        row.protocol = values["protocol"]
        wire_module(row.protocol)
    if "base_url" in values:
        row.base_url = values["base_url"].strip().rstrip("/")
        if row.base_url and (problem := _address_problem(row.base_url)):
            raise InvalidInput(problem, field="base_url")
    if not row.base_url and not address_for(entry_for(row.id), row.protocol):
        raise InvalidInput(f"{row.id} has no address of its own over {row.protocol}: give one", field="base_url")
    if "key_ref" in values:
        row.key_ref = values["key_ref"].strip()
        if problem := key_ref_problem(row.key_ref):
            raise InvalidInput(problem, field="key_ref")
        if looks_like_a_key(row.key_ref.partition(":")[2]):
            raise InvalidInput("this looks like a key: put it into a variable or file, and name that", field="key_ref")
    if "headers" in values:
        row.headers = dict(values["headers"])
        for name, value in row.headers.items():
            if problem := _header_problem(name, value):
                raise InvalidInput(problem, field="headers")
        if len(row.headers) > MAX_HEADERS:
            raise InvalidInput(f"expected at most {MAX_HEADERS}", field="headers")


def _address_problem(address: str) -> str:
    if address.startswith(SANDBOX):
        return "" if address.removeprefix(SANDBOX) in PROVIDERS else "expected sandbox:<provider>"
    try:
        parts = urlsplit(address)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable or len(address) > MAX_ADDRESS_LENGTH or not address.isprintable() or " " in address:
        return f"expected an http or https address, such as https://host/v1, of at most {MAX_ADDRESS_LENGTH} characters"
    has_query = parts.query and not _API_VERSION.fullmatch(parts.query)
    if "@" in parts.netloc or has_query or parts.fragment:
        return "expected an address without user, password, query (but api-version) and fragment: no key belongs there"
    return "" if can_be_looked_up(address) else "no row can hold this address"


def _header_problem(name: str, value: str) -> str:
    if not _HEADER_NAME.fullmatch(name) or len(name) > 100:
        return "a header's name is letters, digits and -"
    if _SECRET_NAME.search(name):
        return f"{name} is a place for a key: name where the key is in key_ref"
    if not (value.isascii() and value.isprintable()) or len(value) > 1000:
        return f"the value of {name} is not one line of at most 1,000 ASCII characters"
    return ""


# Calling

_lock = threading.Lock()
_client: Client | None = None


def http_client() -> Client:
    """The process' one client, made at the first call."""
    global _client
    with _lock:
        if _client is None:
            _client = new_client(settings.COMPAT_ADMIN_PROVIDER_TIMEOUT_S)
        return _client


def new_client(read_s: float) -> Client:
    """A client of one's own, to be closed, which waits so long for an answer."""
    return Client(
        Timeouts(read_s=read_s),
        http2=True,
        proxy=settings.COMPAT_ADMIN_PROVIDER_PROXY,
        ca_file=settings.COMPAT_ADMIN_PROVIDER_CA_FILE,
    )
