"""Keys: those callers show us, of which only a hash is kept, and those we show providers, which are never kept."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path

import msgspec
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from memory import audit, store
from memory.access import Principal
from memory.errors import InvalidInput, NotFound
from memory.models import ApiKey
from memory.principal import SCOPES
from memory.providers.aws import AwsSigner
from memory.providers.google import GoogleSigner
from memory.providers.signers import Signer

PREFIX_LENGTH = 8
MAX_NAME_LENGTH = 200
USE_NOTED_EVERY = timedelta(minutes=1)
MAX_PROVIDER_KEY_BYTES = 16 * 1024
KEY_REFS = ("env:", "file:", "aws:", "google:")
"""How a reference to a provider's key begins."""


def make_key(
    caller: Principal,
    name: str,
    *,
    scopes: Iterable[str],
    resource_id: str = "",
    expires_at: datetime | None = None,
) -> tuple[ApiKey, str]:
    """A new key's row and its text, which can't be had again. Without a resource it may act for any.

    Raises InvalidInput for an unknown scope, or a name or resource that no row can hold.
    """
    wanted = sorted(set(scopes))
    if unknown := [scope for scope in wanted if scope not in SCOPES]:
        raise InvalidInput(f"unknown scope {unknown[0]!r}: expected some of {', '.join(SCOPES)}", field="scopes")
    if problem := store.id_problem(name, max_length=MAX_NAME_LENGTH):
        raise InvalidInput(problem, field="name")
    if resource_id and (problem := store.id_problem(resource_id)):
        raise InvalidInput(problem, field="resource_id")
    text = f"ca_{secrets.token_urlsafe(30)}"
    with transaction.atomic():
        key = ApiKey.objects.create(
            name=name,
            prefix=text[:PREFIX_LENGTH],
            sha256=_hash(text),
            scopes=wanted,
            resource_id=resource_id,
            expires_at=expires_at,
        )
        audit.record(caller.name, "key.made", "key", key.prefix, name=name, scopes=wanted, resource_id=resource_id)
    return key, text


def revoke_key(caller: Principal, key_id: int) -> None:
    """End a key for good. Raises NotFound when there is none that is still in force."""
    with transaction.atomic():
        if not ApiKey.objects.filter(id=key_id, revoked_at=None).update(revoked_at=timezone.now()):
            raise NotFound("no such key")
        audit.record(caller.name, "key.revoked", "key", ApiKey.objects.values_list("prefix", flat=True).get(id=key_id))


def principal_for(text: str, *, now: datetime | None = None) -> Principal | None:
    """Whom a key's text stands for; None when it is unknown, expired or revoked. Its use is noted once a minute."""
    at = now or timezone.now()
    # The hash is looked up, never the text, so how long a comparison takes tells nothing about a key.
    row = (
        ApiKey.objects.filter(sha256=_hash(text), revoked_at=None)
        .values_list("id", "name", "resource_id", "scopes", "expires_at", "last_used_at")
        .first()
    )
    if row is None:
        return None
    key_id, name, resource_id, scopes, expires_at, last_used_at = row
    if expires_at is not None and expires_at <= at:
        return None
    due = at - USE_NOTED_EVERY
    if last_used_at is None or last_used_at <= due:
        unnoted = Q(last_used_at=None) | Q(last_used_at__lte=due)
        ApiKey.objects.filter(unnoted, id=key_id).update(last_used_at=at)
    return Principal(name, key_id, resource_id, frozenset(scopes))


def provider_key(key_ref: str) -> str | Signer:
    """The key that a connection's reference stands for, or what signs in place of one.

    `env:NAME` and `file:/path` hold a key, or a JSON object: a Google service account's key file, or AWS credentials as
    a `credential_process` gives them. `aws:` and `aws:PROFILE` are the credentials AWS' own tools would find, `google:`
    the application default credentials of Google's. An empty reference means that there is no key.

    Raises InvalidInput (no_provider_key) that names the reference, never what was found there. Whether the cloud's
    own credentials are there is seen when a request is signed.
    """
    if not key_ref:
        return ""
    kind, _, place = key_ref.partition(":")
    match kind:
        case "env" | "file":
            found = _text_at(key_ref).strip()
            return _signer(found, key_ref) if found.startswith("{") else _checked_key(found, key_ref)
        case "aws":
            return _aws_signer(place)
        case "google" if not place:
            return _google_signer(None, key_ref)
    # The reference itself may be a key that somebody put into the wrong field.
    message = "a key reference is env:NAME, file:/path, aws:, aws:PROFILE or google:"
    raise InvalidInput(message, field="key_ref", code="no_provider_key")


def _checked_key(key: str, key_ref: str) -> str:
    if not key:
        raise InvalidInput(f"there is no key in {key_ref}", field="key_ref", code="no_provider_key")
    if not (key.isascii() and key.isprintable()):
        raise InvalidInput(
            f"what {key_ref} holds can't be a key: expected one line of ASCII", field="key_ref", code="no_provider_key"
        )
    return key


def _signer(text: str, key_ref: str) -> Signer:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        value = None
    if isinstance(value, dict) and value.get("type") == "service_account":
        return _google_signer(text, key_ref)
    if isinstance(value, dict) and "AccessKeyId" in value:
        return _given_aws_signer(key_ref)
    message = f"what {key_ref} holds is neither a key, nor a Google service account, nor AWS credentials"
    raise InvalidInput(message, field="key_ref", code="no_provider_key")


# One for each, so that tokens are fetched once and connections are used again. A file that changed is another text.
@lru_cache(maxsize=64)
def _google_signer(text: str | None, key_ref: str) -> Signer:
    return GoogleSigner(text, where=key_ref)


@lru_cache(maxsize=64)
def _aws_signer(profile: str) -> Signer:
    return AwsSigner(profile=profile, where=f"aws:{profile}")


@lru_cache(maxsize=64)
def _given_aws_signer(key_ref: str) -> Signer:
    return AwsSigner(read=lambda: _text_at(key_ref), where=key_ref)


def _text_at(key_ref: str) -> str:
    kind, _, place = key_ref.partition(":")
    return os.environ.get(place, "") if kind == "env" else _file_text(place, key_ref)


def _file_text(path: str, key_ref: str) -> str:
    try:
        with Path(path).open("rb") as file:
            found = file.read(MAX_PROVIDER_KEY_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a path"
        raise InvalidInput(f"{key_ref} can't be read: {reason}", field="key_ref", code="no_provider_key") from error
    if len(found) > MAX_PROVIDER_KEY_BYTES:
        raise InvalidInput(f"{key_ref} is too large for a key", field="key_ref", code="no_provider_key")
    return found.decode("utf-8", "replace")


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
