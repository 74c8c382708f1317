"""Switches of rules: off, report or on, for everybody, a provider or an agent."""

from __future__ import annotations

from typing import Literal, cast, get_args

from django.db import connection, transaction
from django.utils import timezone

from memory import audit, store
from memory.access import Principal
from memory.errors import InvalidInput
from memory.messages.names import PROVIDERS
from memory.models import Agent, RuleSetting
from memory.processors.compat.catalogue import rule_ids

State = Literal["off", "report", "on"]
_PRECEDENCE = ("global", "provider", "agent")


def switch_rule(
    caller: Principal, name: str, state: str, *, provider: str | None = None, agent_id: str | None = None
) -> list[str]:
    """Set a rule, or all rules of a family, in one scope: a provider's, an agent's, else global; the rule ids.

    Raises InvalidInput for an unknown rule (naming the nearest), state or scope.
    """
    rules = rule_ids(name)
    if state not in get_args(State):
        raise InvalidInput(f"expected one of {', '.join(get_args(State))}", field="state")
    scope, scope_id = _scope(provider, agent_id)
    now = timezone.now()
    rows = [
        RuleSetting(rule=rule, scope=scope, scope_id=scope_id, state=state, changed_by=caller.name, changed_at=now)
        for rule in rules
    ]
    with transaction.atomic():
        before = _states(rules, scope, scope_id)
        RuleSetting.objects.bulk_create(
            rows,
            update_conflicts=True,
            unique_fields=["rule", "scope", "scope_id"],
            update_fields=["state", "changed_by", "changed_at"],
        )
        audit.record(
            caller.name,
            "rule.switched",
            "rule",
            name,
            rules=rules,
            scope=scope,
            scope_id=scope_id,
            state=state,
            before=before,
        )
    return rules


def reset_rule(caller: Principal, name: str, *, provider: str | None = None, agent_id: str | None = None) -> list[str]:
    """Take a switch of one scope away, so that the next wider one or the rule's default counts; the rule ids."""
    rules = rule_ids(name)
    scope, scope_id = _scope(provider, agent_id)
    with transaction.atomic():
        before = _states(rules, scope, scope_id)
        if before:
            RuleSetting.objects.filter(rule__in=before, scope=scope, scope_id=scope_id).delete()
            audit.record(
                caller.name,
                "rule.reset",
                "rule",
                name,
                rules=list(before),
                scope=scope,
                scope_id=scope_id,
                before=before,
            )
    return rules


def switches_for(provider: str, agent_id: str | None = None) -> dict[str, State]:
    """The switches in force for a call, by rule id; agent beats provider beats global. Rules without one are absent."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT scope, rule, state FROM memory_rulesetting WHERE scope = 'global'"
            " OR (scope = 'provider' AND scope_id = %s) OR (scope = 'agent' AND scope_id = %s)",
            [provider, agent_id or ""],
        )
        rows = cursor.fetchall()
    by_width = sorted(rows, key=lambda row: _PRECEDENCE.index(row[0]))
    return {rule: cast(State, state) for _, rule, state in by_width}


def _scope(provider: str | None, agent_id: str | None) -> tuple[str, str]:
    if provider is not None and agent_id is not None:
        raise InvalidInput("give a provider or an agent, not both", field="provider")
    if provider is not None:
        if provider not in PROVIDERS:
            raise InvalidInput("no such provider", field="provider")
        return "provider", provider
    if agent_id is not None:
        if store.id_problem(agent_id) or not Agent.objects.filter(id=agent_id).exists():
            raise InvalidInput("no such agent", field="agent_id")
        return "agent", agent_id
    return "global", ""


def _states(rules: list[str], scope: str, scope_id: str) -> dict[str, str]:
    return dict(RuleSetting.objects.filter(rule__in=rules, scope=scope, scope_id=scope_id).values_list("rule", "state"))
