"""Agents, their turns, and the connections that turns go over."""

from __future__ import annotations

from django.http import HttpResponse
from msgspec import structs
from ninja import Router

from compat_admin.api.auth import ADMIN, READ, RUN, ApiRequest
from compat_admin.api.bodies import read_body, reply
from compat_admin.api.documents import documents
from compat_admin.api.messages import check_messages
from compat_admin.api.paging import page_of
from compat_admin.api.preview import answer_of
from compat_admin.api.schemas import (
    AgentChange,
    AgentItem,
    CalledTool,
    GenerateAnswer,
    GenerateWanted,
    JsonObject,
    Limit,
    NewAgent,
    PreparedAnswer,
    PrepareWanted,
    ProviderItem,
    QueuedRun,
)
from memory.access import agent_for
from memory.errors import InvalidInput
from memory.models import Agent, Provider
from memory.providers import ENTRIES, ProviderEntry
from memory.queries import MAX_LIMIT, Page
from memory.services import agents, keys, runs

router = Router(tags=["agents"])


@router.get("/agents", auth=READ, **documents(Page[AgentItem]))
def list_agents(request: ApiRequest, limit: Limit = 20, cursor: str | None = None) -> Page[AgentItem]:
    """Agents by id. They belong to no resource: every key sees them all."""
    page = agents.agents_page(request.auth, cursor, limit)
    return Page([_item(agent) for agent in page.items], page.next_cursor)


@router.post("/agents", auth=ADMIN, **documents(AgentItem, status=201, body=NewAgent))
def create_agent(request: ApiRequest) -> HttpResponse:
    """Make an agent; a taken id is 409."""
    return reply(_item(agents.create_agent(request.auth, read_body(request, JsonObject))), 201)


@router.get("/agents/{agent_id}", auth=READ, **documents(AgentItem))
def read_agent(request: ApiRequest, agent_id: str) -> AgentItem:
    """An agent."""
    return _item(agent_for(request.auth, agent_id))


@router.patch("/agents/{agent_id}", auth=ADMIN, **documents(AgentItem, body=AgentChange))
def change_agent(request: ApiRequest, agent_id: str) -> AgentItem:
    """Replace the given fields."""
    agent = agent_for(request.auth, agent_id)
    return _item(agents.update_agent(request.auth, agent.id, read_body(request, JsonObject)))


@router.post(
    "/agents/{agent_id}/generate", auth=RUN, **documents(GenerateAnswer, body=GenerateWanted, also={202: QueuedRun})
)
def generate(request: ApiRequest, agent_id: str) -> GenerateAnswer | HttpResponse:
    """Run one turn and wait for it. With `background` the answer is 202 with the run's id, status `queued`.

    A turn that no retry could save is 502 `run_failed`, one that a processor ended 422 `stopped-by-processor`; both
    name the run, whose attempts say why. While the thread has a run that is not over, 409 `run_active` names that.
    """
    turn, in_background = turn_of(request)
    if in_background:
        run = runs.start_background(request.auth, agent_id, turn)
        response = reply(QueuedRun(run.id, run.thread_id, "queued"), 202)
        response.headers["Location"] = f"/api/runs/{run.id}"
        return response
    return generated(runs.generate(request.auth, agent_id, turn))


def generated(result: runs.RunResult) -> GenerateAnswer:
    """A finished turn as callers get it."""
    return GenerateAnswer(
        run_id=result.run_id,
        thread_id=result.thread_id,
        status=result.status,
        text=result.text,
        finish_reason=result.finish_reason,
        tool_calls=[CalledTool(call["id"], call["name"], call["arguments"]) for call in result.tool_calls],
        usage=dict(result.usage),
        attempt_count=result.attempt_count,
        message_ids=list(result.message_ids),
    )


@router.post("/agents/{agent_id}/prepare", auth=RUN, **documents(PreparedAnswer, body=PrepareWanted))
def prepare(request: ApiRequest, agent_id: str) -> PreparedAnswer:
    """The turn's exact request, for callers that call the provider themselves.

    The run stays open until `/runs/{run_id}/reply` or `/runs/{run_id}/error` says what became of the call.
    """
    body = read_body(request, PrepareWanted)
    if not isinstance(body.messages, str):
        check_messages(body.messages)
    made = runs.prepare(request.auth, agent_id, runs.GenerateRequest(**structs.asdict(body)))
    return PreparedAnswer(made.run_id, made.thread_id, answer_of(made.shown))


def turn_of(request: ApiRequest) -> tuple[runs.GenerateRequest, bool]:
    """What the body asks for, and whether in the background."""
    body = read_body(request, GenerateWanted)
    if not isinstance(body.messages, str):
        check_messages(body.messages)
    wanted = structs.asdict(body)
    in_background = wanted.pop("background")
    return runs.GenerateRequest(**wanted), in_background


@router.get("/providers", auth=READ, **documents(Page[ProviderItem]))
def list_providers(request: ApiRequest, limit: Limit = MAX_LIMIT, cursor: str | None = None) -> Page[ProviderItem]:
    """Every provider and where it is reached: its own connection, else its vendor's address."""
    connections = Provider.objects.in_bulk()
    items = [_connection(entry, connections.get(id_)) for id_, entry in ENTRIES.items()]
    return page_of(items, name="providers", key_of=lambda item: item.id, cursor=cursor, limit=limit)


def _item(agent: Agent) -> AgentItem:
    own = AgentItem.__struct_fields__[:-1]
    return AgentItem(**{name: getattr(agent, name) for name in own}, worst_case=agents.worst_case(agent))


def _connection(entry: ProviderEntry, row: Provider | None) -> ProviderItem:
    conventional = f"env:{entry.key_variable}" if entry.key_variable else ""
    key_ref = row.key_ref if row else conventional
    if not key_ref.startswith(("env:", "file:")):
        key_ref = ""  # Somebody may have put the key itself there.
    return ProviderItem(
        id=entry.id,
        title=entry.title,
        protocol=row.protocol if row else entry.protocol,
        base_url=row.base_url if row else entry.base_url,
        key_ref=key_ref,
        has_key=_has_key(key_ref),
    )


def _has_key(key_ref: str) -> bool:
    try:
        return bool(keys.provider_key(key_ref))
    except InvalidInput:
        return False
