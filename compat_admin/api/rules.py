"""Rules and their switches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from ninja import Router

from compat_admin.api.auth import ADMIN, READ, ApiRequest
from compat_admin.api.bodies import read_body
from compat_admin.api.documents import documents
from compat_admin.api.paging import page_of
from compat_admin.api.schemas import Answer, Limit, RuleChange, RuleItem
from memory import queries
from memory.errors import InvalidInput, NotFound
from memory.processors.compat.catalogue import RULES, rule_ids
from memory.queries import MAX_LIMIT, Page
from memory.services import rules

router = Router(tags=["rules"])


@router.get("/rules", auth=READ, **documents(Page[RuleItem]))
def list_rules(request: ApiRequest, limit: Limit = MAX_LIMIT, cursor: str | None = None) -> Page[RuleItem]:
    """Every rule with its switches, in the catalogue's order."""
    return page_of(_items(RULES), name="rules", key_of=lambda item: item.id, cursor=cursor, limit=limit)


@router.patch("/rules/{name}", auth=ADMIN, **documents(Answer[RuleItem], body=RuleChange))
def change_rule(request: ApiRequest, name: str) -> Answer[RuleItem]:
    """Switch a rule, or all rules of a family: for everybody, or for a provider or an agent. Answers with those rules.

    An agent's switch beats a provider's, a provider's beats everybody's. `default` takes a switch away, so that the
    next wider one counts.
    """
    try:
        rule_ids(name)
    except InvalidInput as error:
        raise NotFound(str(error)) from error
    body = read_body(request, RuleChange)
    provider, agent_id = body.provider, body.agent_id
    if body.state == "default":
        changed = rules.reset_rule(request.auth, name, provider=provider, agent_id=agent_id)
    else:
        changed = rules.switch_rule(request.auth, name, body.state, provider=provider, agent_id=agent_id)
    return Answer(_items(changed))


def _items(ids: Iterable[str]) -> list[RuleItem]:
    switches = defaultdict(list)
    for setting in queries.rule_settings():
        switches[setting.rule].append(setting)
    items = []
    for rule in (RULES[id_] for id_ in ids):
        everywhere = next((setting.state for setting in switches[rule.id] if setting.scope == "global"), rule.default)
        items.append(
            RuleItem(
                id=rule.id,
                family=rule.family,
                provider=rule.provider,
                title=rule.title,
                acts=rule.acts,
                confidence=rule.confidence,
                why=rule.why,
                default=rule.default,
                state=everywhere,
                switches=switches[rule.id],
            )
        )
    return items
