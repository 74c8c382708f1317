"""Whether the facts behind the rules still hold: each rule's example sent to the real provider, raw and cured."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from django.db import connection as database
from django.db import transaction
from django.utils import timezone
from msgspec import Struct

from memory import audit
from memory.access import Principal
from memory.errors import CompatAdminError, InvalidInput, ProviderError
from memory.messages.names import PROVIDERS, ModelRef
from memory.models import RuleProbe
from memory.processors.compat.catalogue import rule_ids
from memory.processors.compat.faults import known_faults, known_rules
from memory.profiles import profile_for
from memory.providers.http import Client
from memory.providers.wire import Encoded, Settings
from memory.services.calls import Outbound, ProviderModel
from memory.services.connections import connection_for
from memory.services.secrets import words_of
from memory.trials import Trial, trials_for

Outcome = Literal["holds", "not needed", "cure fails", "no answer"]
Wait = Callable[[float], object]

_TRIES = 4
"""How often a request is sent while the provider asks to come back later."""
_LONGEST_WAIT_S = 600.0


class ProbeStopped(CompatAdminError):
    """The provider takes no more calls, or none at all; what was probed before is stored."""

    code = "probe_stopped"


class Answer(Struct, frozen=True):
    """What came: the status, none where no answer came, and the provider's words where it is no reply.

    Some hosts refuse with a 200 that holds an error.
    """

    status: int | None
    error: str = ""
    is_refused: bool = False
    """Whether the words are about the request; else they say that there was no proper answer to it."""

    @property
    def is_accepted(self) -> bool:
        return self.status == 200 and not self.error


def planned(provider: str, *, model_id: str = "", rules: Sequence[str] = ()) -> list[Trial]:
    """One trial for each rule that acts for this connection; two calls each. Without a model each takes its own.

    `rules` are rule ids or families. Raises InvalidInput for names nobody knows, for a provider without an address,
    and where no rule acts.
    """
    if provider not in PROVIDERS:
        raise InvalidInput(f"no provider is called {provider!r}", field="provider")
    wanted = [rule for name in rules for rule in rule_ids(name)]
    protocol = connection_for(provider, with_key=False).protocol
    found = trials_for(provider, protocol, model_id, wanted)
    if not found:
        which = f" {', '.join(rules)}" if rules else ""
        target = f"{provider}/{model_id}" if model_id else provider
        hint = "" if model_id else "; name a model of it"
        raise InvalidInput(f"no rule{which} has an example for {target} over {protocol}{hint}", field="rule")
    return found


def probe(
    caller: Principal, provider: str, trials: Sequence[Trial], *, client: Client, wait: Wait = time.sleep
) -> Iterator[RuleProbe]:
    """Send the trials one after the other; each is stored before the next is sent, in the place of an earlier one.

    Waits as the provider asks. Raises InvalidInput without a key, ProbeStopped when the key is refused or used up, or
    nobody answers.
    """
    reached = connection_for(provider, with_key=True)
    with transaction.atomic():
        audit.record(
            caller.name, "provider.probed", "provider", provider, rules=[trial.example.rule for trial in trials]
        )
    for trial in trials:
        model = ProviderModel(reached, ModelRef(provider, trial.model_id), Settings(trial.model_id), client)
        raw = _answer(model, trial.raw, wait)
        cured = _answer(model, trial.cured, wait)
        if raw.status is None and cured.status is None:
            raise ProbeStopped(f"{provider} can't be reached: {cured.error}")
        yield _store(caller, trial, raw, cured)


def probes_of(rule_id: str) -> list[RuleProbe]:
    """The last answers to a rule's example, by provider and model."""
    return list(RuleProbe.objects.filter(rule=rule_id).order_by("provider", "model_id"))


def is_in_known_words(row: RuleProbe) -> bool | None:
    """Whether the raw history was refused in words by which the rule's fault is known; None for one without any."""
    if row.rule not in known_rules() or not row.raw_error:
        return None
    profile = profile_for(ModelRef(row.provider, row.model_id), row.protocol)
    return any(
        rule == row.rule or row.rule in map(profile.rule, faults)
        for rule, faults in known_faults([row.raw_error], profile)
    )


def outcome_of(raw: Answer, cured: Answer) -> Outcome:
    """What two answers say of a rule; nothing where the model is not there."""
    if cured.status == raw.status == 404:
        return "no answer"
    if cured.is_refused:
        return "cure fails"
    if not cured.is_accepted or not (raw.is_accepted or raw.is_refused):
        return "no answer"
    return "not needed" if raw.is_accepted else "holds"


def _answer(model: ProviderModel, request: Encoded | None, wait: Wait) -> Answer:
    assert request is not None  # `trials_for` gives no other trials
    # Neither a call nor a wait may hold the database's connection.
    if not database.in_atomic_block:
        database.close()
    for number in range(1, _TRIES + 1):
        try:
            model.send(Outbound(request, request.body, {}))
        except ProviderError as error:
            words = words_of(error.message, model.connection)
            _stop_if_closed(error, words, model.ref.provider)
            if not error.is_retryable:
                return Answer(error.status_code, words, is_refused=error.error_class != "connection")
            if number == _TRIES:
                return Answer(error.status_code, words)
            delay_s = 2.0**number if error.retry_after_ms is None else error.retry_after_ms / 1000
            if delay_s > _LONGEST_WAIT_S:
                asked = f"{model.ref.provider} asks to wait {delay_s:,.0f} seconds: {words}"
                raise ProbeStopped(asked) from error
            wait(delay_s)
        else:
            return Answer(200)
    raise RuntimeError("the last try returns")


def _stop_if_closed(error: ProviderError, words: str, provider: str) -> None:
    """Raises ProbeStopped where every further call would end alike: key, permission, money."""
    if error.status_code in (401, 403) or error.error_class == "authentication":
        raise ProbeStopped(f"{provider} refuses this key ({_status(error)}): {words}") from error
    if error.status_code == 402 or error.error_class == "quota":
        raise ProbeStopped(f"{provider} takes no more calls on this account ({_status(error)}): {words}") from error


def _status(error: ProviderError) -> str:
    return str(error.status_code or "no status")


def _store(caller: Principal, trial: Trial, raw: Answer, cured: Answer) -> RuleProbe:
    row, _ = RuleProbe.objects.update_or_create(
        rule=trial.example.rule,
        provider=trial.provider,
        model_id=trial.model_id,
        defaults={
            "protocol": trial.protocol,
            "outcome": outcome_of(raw, cured),
            "raw_status": raw.status,
            "raw_error": raw.error,
            "cured_status": cured.status,
            "cured_error": cured.error,
            "probed_by": caller.name,
            "probed_at": timezone.now(),
        },
    )
    return row
