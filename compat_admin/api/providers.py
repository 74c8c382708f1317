"""Connections: where each provider is reached, and where its key is found. No key is ever taken or given."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from msgspec import UNSET, Struct, structs
from ninja import Router

from compat_admin.api.auth import ADMIN, READ, ApiRequest
from compat_admin.api.bodies import read_body, reply
from compat_admin.api.documents import documents
from compat_admin.api.paging import page_of
from compat_admin.api.repeats import repeatable
from compat_admin.api.schemas import Limit, NewProvider, ProviderChange
from memory.queries import MAX_LIMIT, Page
from memory.services import connections
from memory.services.connections import ProviderItem

router = Router(tags=["agents"])


@router.get("/providers", auth=READ, **documents(Page[ProviderItem]))
def list_providers(request: ApiRequest, limit: Limit = MAX_LIMIT, cursor: str | None = None) -> Page[ProviderItem]:
    """Every provider and where it is reached: its own connection, else its vendor's address."""
    return page_of(
        connections.connection_items(), name="providers", key_of=lambda item: item.id, cursor=cursor, limit=limit
    )


@router.post("/providers", auth=ADMIN, **documents(ProviderItem, status=201, body=NewProvider))
@repeatable()
def create_provider(request: ApiRequest) -> HttpResponse:
    """Set a provider's connection, where it has none of its own; else 409 `id_taken`."""
    body = read_body(request, NewProvider)
    connections.create_connection(request.auth, body.id, _given(body))
    return reply(connections.connection_item(body.id), 201)


@router.get("/providers/{provider_id}", auth=READ, **documents(ProviderItem))
def read_provider(request: ApiRequest, provider_id: str) -> ProviderItem:
    """A provider and where it is reached."""
    return connections.connection_item(provider_id)


@router.patch("/providers/{provider_id}", auth=ADMIN, **documents(ProviderItem, body=ProviderChange))
def change_provider(request: ApiRequest, provider_id: str) -> ProviderItem:
    """Replace the given fields of a connection that was set here, headers as a whole."""
    connections.update_connection(request.auth, provider_id, _given(read_body(request, ProviderChange)))
    return connections.connection_item(provider_id)


@router.delete("/providers/{provider_id}", auth=ADMIN, **documents(status=204))
def delete_provider(request: ApiRequest, provider_id: str) -> HttpResponse:
    """Take a connection away: the provider is reached at its vendor's address again, if it has one."""
    connections.delete_connection(request.auth, provider_id)
    return HttpResponse(status=204)


def _given(body: Struct) -> dict[str, Any]:
    return {name: value for name, value in structs.asdict(body).items() if value is not UNSET and name != "id"}
