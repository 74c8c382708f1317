"""Agents: how turns are run, as data that is checked when it is saved."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from memory import audit, queries, store
from memory.access import Principal, agent_for
from memory.errors import Conflict, FieldError, InvalidInput
from memory.models import Agent, RuleSetting
from memory.processors.config import LISTS, normalise_lists, snake_case
from memory.services.calls import own_processors, settings_for, tools_from
from memory.services.connections import target_model

_TEXTS = {"name": 200, "instructions": 1_000_000}
_NUMBERS = {"max_steps": (1, 100), "model_max_retries": (0, 20), "max_processor_retries": (0, 1000)}
_MAX_FALLBACKS = 10
CAPTURES = ("full", "changes", "off")
"""What is kept of an agent's calls: bodies and changes, changes only, or neither. Hash, size and decisions always."""

_FIELDS = {
    "id",
    "name",
    "model",
    "fallback_models",
    "capture",
    "instructions",
    "tools",
    "settings",
    "processors",
    *_NUMBERS,
    *LISTS,
}


def create_agent(caller: Principal, values: Mapping[str, Any]) -> Agent:
    """A new agent. Without any processor list it gets the default ones, written into its row.

    Raises InvalidInput with the place of what does not fit, Conflict when the id is taken.
    """
    given = _given(values)
    name, model = given.get("name"), given.get("model")
    missing = [FieldError(key, "is needed") for key in ("name", "model") if not isinstance(given.get(key), str)]
    if missing:
        raise InvalidInput("an agent needs a name and a model", errors=tuple(missing))
    agent_id = given.get("id") or re.sub(r"[^a-z0-9]+", "-", str(name).lower()).strip("-")[:128] or "agent"
    if problem := store.thread_id_problem(agent_id):
        raise InvalidInput(problem, field="id")
    agent = Agent(id=agent_id, name=str(name), model=str(model))
    _apply(agent, given)
    for key, entries in normalise_lists(_lists(given), own_processors()).items():
        setattr(agent, key, entries)
    try:
        with transaction.atomic():
            agent.save(force_insert=True)
            audit.record(caller.name, "agent.created", "agent", agent.id)
    except IntegrityError as error:
        raise Conflict(f"there is an agent {agent_id} already", code="id_taken") from error
    return agent


def update_agent(caller: Principal, agent_id: str, values: Mapping[str, Any]) -> Agent:
    """The agent with the given fields replaced. Raises InvalidInput, NotFound."""
    agent = agent_for(caller, agent_id)
    given = _given(values)
    if "id" in given and given["id"] != agent.id:
        raise InvalidInput("an agent keeps its id", field="id")
    _apply(agent, given)
    lists = _lists(given)
    if lists:
        made = normalise_lists(lists, own_processors())
        for key in LISTS if "processors" in lists else lists:
            setattr(agent, key, made[key])
    agent.updated_at = timezone.now()
    with transaction.atomic():
        agent.save()
        audit.record(caller.name, "agent.updated", "agent", agent.id, fields=sorted(given))
    return agent


def delete_agent(caller: Principal, agent_id: str) -> None:
    """Delete an agent; its threads and runs stay, without it, and its own switches go. Raises NotFound."""
    agent = agent_for(caller, agent_id)
    with transaction.atomic():
        RuleSetting.objects.filter(scope="agent", scope_id=agent.id).delete()
        agent.delete()
        audit.record(caller.name, "agent.deleted", "agent", agent_id, name=agent.name)


def agents_page(caller: Principal, cursor: str | None = None, limit: int = 20) -> queries.Page[Agent]:
    """Agents by id; every caller sees them all. Raises InvalidInput for a bad cursor."""
    return queries.agents_page(cursor=cursor, limit=limit)


def worst_case(agent: Agent) -> str:
    """How many provider calls one request can become, in words."""
    retries = 10 if agent.max_processor_retries is None else agent.max_processor_retries
    can_ask = bool(agent.error_processors) or any(
        entry["id"] == "provider-history-compat" for entry in agent.input_processors
    )
    calls = (1 + (retries if can_ask else 0)) * (1 + agent.model_max_retries) * (1 + len(agent.fallback_models))
    words = f"One request can become up to {calls} provider call{'s' if calls != 1 else ''}."
    if can_ask and retries and agent.model_max_retries:
        words += " Both kinds of retries multiply: set model_max_retries to 0 to have one budget."
    return words


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(values, Mapping):
        raise InvalidInput("expected an object", field="body")
    given = {snake_case(key): value for key, value in values.items()}
    if unknown := sorted(set(given) - _FIELDS):
        errors = tuple(FieldError(name, "is no field of an agent") for name in unknown)
        raise InvalidInput(f"unknown field {unknown[0]}", errors=errors)
    return given


def _lists(given: Mapping[str, Any]) -> dict[str, Any]:
    return {key: given[key] for key in (*LISTS, "processors") if key in given}


def _apply(agent: Agent, given: Mapping[str, Any]) -> None:
    for key, longest in _TEXTS.items():
        if key in given:
            value = given[key]
            if not isinstance(value, str) or len(value) > longest or "\x00" in value:
                raise InvalidInput(f"expected a text of at most {longest:,} characters", field=key)
            setattr(agent, key, store.clean_label(value, longest) if key == "name" else value)
    if "model" in given:
        if not isinstance(given["model"], str) or len(given["model"]) > 260:
            raise InvalidInput("expected provider/model", field="model")
        agent.model = str(target_model(given["model"]))
    if "capture" in given:
        if given["capture"] not in CAPTURES:
            raise InvalidInput(f"expected one of {', '.join(CAPTURES)}", field="capture")
        agent.capture = given["capture"]
    if "fallback_models" in given:
        agent.fallback_models = _fallback_models(given["fallback_models"])
    for key, (least, most) in _NUMBERS.items():
        if key in given:
            value = given[key]
            is_unset = value is None and key == "max_processor_retries"
            if not is_unset and (isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most):
                raise InvalidInput(f"expected a whole number from {least} to {most}", field=key)
            setattr(agent, key, value)
    if "settings" in given:
        settings_for(target_model(agent.model), given["settings"])
        agent.settings = dict(given["settings"] or {})
    if "tools" in given:
        tools_from(given["tools"])
        agent.tools = list(given["tools"] or [])


def _fallback_models(value: Any) -> list[str]:
    if not isinstance(value, list) or len(value) > _MAX_FALLBACKS:
        raise InvalidInput(f"expected a list of at most {_MAX_FALLBACKS} models", field="fallback_models")
    made = []
    for i, text in enumerate(value):
        place = f"fallback_models[{i}]"
        if not isinstance(text, str) or len(text) > 260:
            raise InvalidInput("expected provider/model", field=place)
        try:
            made.append(str(target_model(text)))
        except InvalidInput as error:
            raise InvalidInput(str(error), field=place) from error
    return made
