"""Keys of callers: made, listed and revoked by admins, and the short-lived tokens that keys make for one resource."""

from __future__ import annotations

from datetime import timedelta

from django.http import HttpResponse
from django.utils import timezone
from msgspec import structs
from ninja import Router

from compat_admin.api.auth import ADMIN, TOKEN, ApiRequest
from compat_admin.api.bodies import read_body, reply
from compat_admin.api.documents import documents
from compat_admin.api.schemas import KeyKind, Limit, MadeKey, NewKey, NewToken
from memory import queries
from memory.errors import InvalidInput
from memory.queries import KeyItem, Page
from memory.services import keys

router = Router(tags=["keys"])

LONGEST_S = 10 * 365 * 86_400


@router.get("/keys", auth=ADMIN, **documents(Page[KeyItem]))
def list_keys(
    request: ApiRequest, limit: Limit = 20, cursor: str | None = None, kind: KeyKind | None = None
) -> Page[KeyItem]:
    """Keys and tokens, newest first, never with their text."""
    return queries.keys_page(request.auth, cursor=cursor, limit=limit, kind=kind)


@router.post("/keys", auth=ADMIN, **documents(MadeKey, status=201, body=NewKey))
def create_key(request: ApiRequest) -> HttpResponse:
    """Make a key. Its text is in this answer and nowhere else. It may do no more than the key that makes it."""
    body = read_body(request, NewKey)
    expires_at = None
    if body.expires_in_s is not None:
        if not 0 < body.expires_in_s <= LONGEST_S:
            raise InvalidInput(f"expected 1 to {LONGEST_S:,} seconds", field="expires_in_s")
        expires_at = timezone.now() + timedelta(seconds=body.expires_in_s)
    made, text = keys.make_key(
        request.auth, body.name, scopes=body.scopes, resource_id=body.resource_id, expires_at=expires_at
    )
    return _made(made.id, text)


@router.delete("/keys/{key_id}", auth=ADMIN, **documents(status=204))
def revoke_key(request: ApiRequest, key_id: int) -> HttpResponse:
    """End a key or token for good, and a key's tokens with it."""
    keys.revoke_key(request.auth, key_id)
    return HttpResponse(status=204)


@router.post("/tokens", auth=TOKEN, **documents(MadeKey, status=201, body=NewToken))
def create_token(request: ApiRequest) -> HttpResponse:
    """Make a token for one resource: for a browser or a device, which must not hold a server's key.

    Any key with `read`, `write` or `run` may, within its own scopes; a token may not. It lives an hour unless
    `expires_in_s` says otherwise, at most a day, and ends with the key that made it.
    """
    body = read_body(request, NewToken)
    made, text = keys.make_token(
        request.auth, body.resource_id, scopes=body.scopes, expires_in_s=body.expires_in_s, name=body.name
    )
    return _made(made.id, text)


def _made(key_id: int, text: str) -> HttpResponse:
    return reply(MadeKey(**structs.asdict(queries.key_item(key_id)), key=text), 201)
