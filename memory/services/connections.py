"""Where providers are reached: connection rows, the sandbox's address, one HTTP client for the process."""

from __future__ import annotations

import threading

from django.conf import settings

from memory.errors import InvalidInput
from memory.messages.names import PROVIDERS, ModelRef, model_ref
from memory.models import Provider
from memory.providers import entry_for
from memory.providers.http import Client, Connection, Timeouts
from memory.services.keys import provider_key
from memory.statements import load_row

SANDBOX = "sandbox:"
SANDBOX_KEY = "sandbox-takes-any-key"


def target_model(text: str) -> ModelRef:
    """The model that `provider/model` means. Raises InvalidInput for another form or an unknown provider."""
    ref = model_ref(text)
    if not ref.provider or not ref.model_id:
        raise InvalidInput("expected provider/model, such as anthropic/claude-sonnet-4-5", field="model")
    if ref.provider not in PROVIDERS:
        raise InvalidInput(f"no provider is called {ref.provider!r}", field="provider")
    return ref


def connection_for(provider: str, *, with_key: bool) -> Connection:
    """The connection of a provider: its row, else its vendor's own address and conventional key variable.

    Without `with_key` no key is looked up: enough to show what would be sent where. Raises InvalidInput when there is
    no address, no sandbox to take the place of it, or no key.
    """
    entry = entry_for(provider)
    row = load_row(Provider, provider)
    protocol = row.protocol if row else entry.protocol
    base_url = row.base_url if row else entry.base_url
    key_ref = row.key_ref if row else f"env:{entry.key_variable}" if entry.key_variable else ""
    headers = row.headers if row else {}
    if base_url.startswith(SANDBOX):
        root = settings.SANDBOX_URL
        if not root and with_key:
            raise InvalidInput(f"{provider} points at the sandbox, and none is running here", field="provider")
        address = f"{root or 'http://sandbox.invalid'}/{base_url.removeprefix(SANDBOX)}/v1"
        return Connection(provider, protocol, address, SANDBOX_KEY if with_key else "", headers)
    if not base_url:
        raise InvalidInput(f"{provider} has no address: add a connection for it", field="provider")
    key = provider_key(key_ref) if with_key and key_ref else ""
    return Connection(provider, protocol, base_url, key, headers)


_lock = threading.Lock()
_client: Client | None = None


def http_client() -> Client:
    """The process' one client, made at the first call."""
    global _client
    with _lock:
        if _client is None:
            _client = Client(Timeouts(read_s=settings.COMPAT_ADMIN_PROVIDER_TIMEOUT_S))
        return _client
