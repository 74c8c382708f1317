"""One tiny call over a connection: does it work, and if not, what is in the way?"""

from __future__ import annotations

from typing import Literal

from django.db import connection as database
from msgspec import Struct

from memory.errors import EncodingError, InvalidInput, ProviderError
from memory.messages.names import ModelRef
from memory.messages.prompt import Message, Prompt, Text
from memory.providers.calls import request_for
from memory.providers.http import Client
from memory.providers.wire import Settings
from memory.services.calls import Outbound, ProviderModel
from memory.services.connections import connection_for
from memory.services.secrets import without_keys, words_of

Outcome = Literal[
    "answered", "key", "account", "absent", "busy", "failing", "unreachable", "unreadable", "refused", "no call"
]

_PROMPT = Prompt((Message("user", (Text("Answer with: OK"),)),))
_MAX_TOKENS = 16
"""The fewest that every protocol takes."""


class Ping(Struct, frozen=True):
    """How a call went. `words` are the provider's without any key, or ours where no call could be made."""

    outcome: Outcome
    status: int | None = None
    words: str = ""
    took_s: float | None = None
    """Of an answer."""


def ping(model: ModelRef, client: Client) -> Ping:
    """Call a model once, with the connection and key that runs use. Nothing is waited for and nothing tried again."""
    try:
        reached = connection_for(model.provider, with_key=True, model_id=model.model_id)
        encoded = request_for(
            model.provider, reached.protocol, _PROMPT, Settings(model.model_id, max_tokens=_MAX_TOKENS)
        )
        # A call must not hold the database's connection.
        if not database.in_atomic_block:
            database.close()
        answer = ProviderModel(reached, model, Settings(model.model_id), client).send(
            Outbound(encoded, encoded.body, {})
        )
    except (InvalidInput, EncodingError) as error:
        return Ping("no call", words=without_keys(str(error)))
    except ProviderError as error:
        return Ping(outcome_of(error), error.status_code, without_keys(words_of(error.message, reached)))
    exchange = answer.exchange
    return Ping("answered", exchange.status, took_s=round(exchange.finished_at - exchange.started_at, 3))


def outcome_of(error: ProviderError) -> Outcome:
    """What a failure says of the connection."""
    status = error.status_code
    if status in (401, 403) or error.error_class == "authentication":
        return "key"
    if status == 402 or error.error_class == "quota":
        return "account"
    if error.error_class == "configuration":
        return "no call"
    if status is None:
        return "unreachable"
    if status == 404:
        return "absent"
    if status == 429:
        return "busy"
    if status >= 500:
        return "failing"
    return "unreadable" if status < 400 and error.error_class == "transient" else "refused"
