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
from django.db import connection, transaction
from django.db.models import Q
from django.utils import timezone
from msgspec import Struct

from memory import audit, store
from memory.access import Principal, require
from memory.errors import Forbidden, InvalidInput, NotFound
from memory.models import ApiKey
from memory.principal import SCOPES
from memory.providers.aws import AwsSigner
from memory.providers.google import GoogleSigner
from memory.providers.signers import Signer
from memory.queries import MAX_ID

PREFIX_LENGTH = 8
MAX_NAME_LENGTH = 200
USE_NOTED_EVERY = timedelta(minutes=1)
MAX_PROVIDER_KEY_BYTES = 16 * 1024
KEY_REFS = ("env:", "file:", "aws:", "google:")
"""How a reference to a provider's key begins."""
MAX_REF_LENGTH = 300
OWN_VARIABLES = ("COMPAT_ADMIN_", "DATABASE_URL", "CELERY_")
TOKEN_SCOPES = frozenset({"read", "write", "run"})
TOKEN_S, MIN_TOKEN_S, MAX_TOKEN_S = 3600, 60, 86_400
TOKENS_KEPT = timedelta(days=7)


def make_key(
    caller: Principal,
    name: str,
    *,
    scopes: Iterable[str],
    resource_id: str = "",
    expires_at: datetime | None = None,
) -> tuple[ApiKey, str]:
    """A new key's row and its text, which can't be had again. Without a resource it may act for any.

    Raises InvalidInput for an unknown scope, or a name or resource that no row can hold, Forbidden when a key would
    make one that may do more than itself.
    """
    wanted = _scopes(scopes)
    _check_labels(name, resource_id)
    if resource_id and "admin" in wanted:
        raise InvalidInput("agents, rules and keys belong to no resource: leave 'admin' out", field="scopes")
    if caller.key_id is not None:
        if not caller.scopes.issuperset(wanted):
            raise Forbidden("a key makes no key with more scopes than its own")
        if not caller.may_act_for(resource_id):
            raise Forbidden("this key acts for another resource")
    if expires_at is not None and expires_at <= timezone.now():
        raise InvalidInput("expected a time to come", field="expires_at")
    made = ApiKey(name=name, scopes=wanted, resource_id=resource_id, expires_at=expires_at)
    return made, _save(made, caller, "key.made")


def make_token(
    caller: Principal,
    resource_id: str = "",
    *,
    scopes: Iterable[str] | None = None,
    expires_in_s: int = TOKEN_S,
    name: str = "",
) -> tuple[ApiKey, str]:
    """A short-lived key for one resource, made by a key, and its text. It ends with its maker and makes no others.

    Without `scopes` it has all its maker's that a token can have. Raises Forbidden when it would have more than its
    maker, InvalidInput for anything else that can't be.
    """
    require(caller, "token")
    if caller.key_id is None:
        raise Forbidden("tokens are made by keys")
    resource_id = resource_id or caller.resource_id
    if not resource_id:
        raise InvalidInput("a token is for one resource", field="resource_id")
    _check_labels(name or "token", resource_id)
    if not caller.may_act_for(resource_id):
        raise Forbidden("this key acts for another resource")
    wanted = _scopes(caller.scopes & TOKEN_SCOPES if scopes is None else scopes)
    if not TOKEN_SCOPES.issuperset(wanted):
        raise InvalidInput("a token can't have the scope 'admin'", field="scopes")
    if not caller.scopes.issuperset(wanted):
        raise Forbidden("a token has no more scopes than the key that makes it")
    if not MIN_TOKEN_S <= expires_in_s <= MAX_TOKEN_S:
        raise InvalidInput(f"expected {MIN_TOKEN_S} to {MAX_TOKEN_S:,} seconds", field="expires_in_s")
    made = ApiKey(
        name=name or f"{caller.name}, for {resource_id}"[:MAX_NAME_LENGTH],
        scopes=wanted,
        resource_id=resource_id,
        expires_at=timezone.now() + timedelta(seconds=expires_in_s),
        maker_id=caller.key_id,
    )
    return made, _save(made, caller, "token.made")


def revoke_key(caller: Principal, key_id: int) -> None:
    """End a key for good, and its tokens with it.

    Raises NotFound when there is none that is still in force.
    """
    with transaction.atomic():
        keys = ApiKey.objects.filter(id=key_id, revoked_at=None)
        if key_id > MAX_ID or not keys.update(revoked_at=timezone.now()):
            raise NotFound("no such key")
        audit.record(caller.name, "key.revoked", "key", ApiKey.objects.values_list("prefix", flat=True).get(id=key_id))


class Found(Struct, frozen=True):
    """Whom a key stands for, and how many requests its row has counted in which minute."""

    principal: Principal
    window: int
    window_count: int


def principal_for(text: str, *, now: datetime | None = None) -> Principal | None:
    """Whom a key's text stands for; None when it is unknown, expired or revoked. Its use is noted once a minute."""
    found = look_up(text, now=now)
    return found.principal if found else None


def look_up(text: str, *, now: datetime | None = None) -> Found | None:
    """As `principal_for`, with the key's count of requests."""
    at = now or timezone.now()
    due = at - USE_NOTED_EVERY
    now_value, due_value = (connection.ops.adapt_datetimefield_value(instant) for instant in (at, due))
    with connection.cursor() as cursor:
        # The hash is looked up, never the text, so how long a comparison takes tells nothing about a key.
        cursor.execute(_LOOK_UP, [due_value, _hash(text), now_value, now_value])
        row = cursor.fetchone()
    if row is None:
        return None
    key_id, name, resource_id, scopes, maker_id, window, window_count, is_due = row
    if is_due:
        unnoted = Q(last_used_at=None) | Q(last_used_at__lte=due)
        ApiKey.objects.filter(unnoted, id=key_id).update(last_used_at=at)
    held = frozenset(msgspec.json.decode(scopes, type=list[str]))
    return Found(Principal(name, key_id, resource_id, held, maker_id=maker_id), window, window_count)


# By hand, because every request of a caller passes here: the ORM would take longer than the database.
_LOOK_UP = """
SELECT used.id, used.name, used.resource_id, used.scopes, used.maker_id, used."window", used.window_count,
  used.last_used_at IS NULL OR used.last_used_at <= %s
FROM memory_apikey used LEFT JOIN memory_apikey maker ON maker.id = used.maker_id
WHERE used.sha256 = %s
  AND used.revoked_at IS NULL AND (used.expires_at IS NULL OR used.expires_at > %s)
  AND maker.revoked_at IS NULL AND (maker.expires_at IS NULL OR maker.expires_at > %s)
"""


def forget_ended_tokens(*, now: datetime | None = None) -> int:
    """Delete the rows of tokens that ended a week ago; how many. The audit log keeps that they were made."""
    ended = (now or timezone.now()) - TOKENS_KEPT
    return ApiKey.objects.exclude(maker=None).filter(expires_at__lt=ended).delete()[0]


def _scopes(scopes: Iterable[str]) -> list[str]:
    wanted = sorted(set(scopes))
    if unknown := [scope for scope in wanted if scope not in SCOPES]:
        raise InvalidInput(f"unknown scope {unknown[0]!r}: expected some of {', '.join(SCOPES)}", field="scopes")
    if not wanted:
        raise InvalidInput(f"expected at least one of {', '.join(SCOPES)}", field="scopes")
    return wanted


def _check_labels(name: str, resource_id: str) -> None:
    if problem := store.id_problem(name, max_length=MAX_NAME_LENGTH):
        raise InvalidInput(problem, field="name")
    if resource_id and (problem := store.id_problem(resource_id)):
        raise InvalidInput(problem, field="resource_id")


def _save(made: ApiKey, caller: Principal, action: str) -> str:
    text = f"ca_{secrets.token_urlsafe(30)}"
    made.prefix, made.sha256 = text[:PREFIX_LENGTH], _hash(text)
    with transaction.atomic():
        made.save(force_insert=True)
        told = {"name": made.name, "scopes": made.scopes, "resource_id": made.resource_id}
        audit.record(caller.name, action, "key", made.prefix, **told)
    return text


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
    if problem := key_ref_problem(key_ref):
        raise InvalidInput(problem, field="key_ref", code="no_provider_key")
    kind, _, place = key_ref.partition(":")
    match kind:
        case "env" | "file":
            found = _text_at(key_ref).strip()
            return _signer(found, key_ref) if found.startswith("{") else _checked_key(found, key_ref)
        case "aws":
            return _aws_signer(place)
        case _:
            return _google_signer(None, key_ref)


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


def key_ref_problem(key_ref: str) -> str:
    """Why a text can't be the reference of a provider's key; empty when it can, or there is none.

    What this site itself lives on is no provider's key: a connection would send it wherever it points.
    """
    if not key_ref:
        return ""
    kind, _, place = key_ref.partition(":")
    is_known = {"env": bool(place), "file": bool(place), "aws": True, "google": not place}.get(kind, False)
    if not is_known or ":" not in key_ref or len(key_ref) > MAX_REF_LENGTH:
        # The text itself may be a key that somebody put into the wrong field, so it is not repeated.
        return "a key reference is env:NAME, file:/path, aws:, aws:PROFILE or google:"
    own = [name for name in os.environ if name.startswith(OWN_VARIABLES)]
    if kind == "env" and (place.startswith(OWN_VARIABLES) or not place.isprintable()):
        return "this variable is the site's own"
    if kind == "file" and any(_is_same_file(place, os.environ[name]) for name in own if name.endswith("_FILE")):
        return "this file is the site's own"
    return ""


def _is_same_file(one: str, other: str) -> bool:
    try:
        return os.path.realpath(one) == os.path.realpath(other)
    except (OSError, ValueError):
        return False


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
