"""An example of a rule as two requests: as the history is without the rule, and as the pipeline sends it.

Needs no database and no settings, and calls nobody.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct

from memory.errors import EncodingError, ProviderError
from memory.messages.lists import MessageList
from memory.messages.names import ModelRef
from memory.messages.prompt import Prompt, prompt_from_json
from memory.processors import Chain, ProviderHistoryCompat, Switches
from memory.processors.base import PromptResult
from memory.processors.changes import Change
from memory.processors.compat.catalogue import RULES
from memory.processors.compat.examples import Example, all_examples
from memory.providers import entry_for, wire_module
from memory.providers.calls import request_for
from memory.providers.wire import Encoded, Settings, Tool


class Trial(Struct, frozen=True):
    """An example made for one target.

    `raw` is the last request that the pipeline makes with the rule off, `cured` the last one with it on: the second
    one where the provider's error asks for the rule. A request that can't be written at all is None, and `raw_problem`
    says why. `prompt` and `changes` are those of the cured one; `acts` says whether the rule made one of the changes,
    or asked for the repair.
    """

    example: Example
    provider: str
    protocol: str
    model_id: str
    raw: Encoded | None
    cured: Encoded | None
    prompt: Prompt
    changes: tuple[Change, ...]
    acts: bool
    raw_problem: str = ""


class _Sent(Struct, frozen=True):
    encoded: Encoded | None
    prompt: Prompt
    changes: tuple[Change, ...]
    problem: str = ""
    asked: str = ""
    """The rule that asked for a second request."""


def trial_of(example: Example, *, provider: str = "", protocol: str = "", model_id: str = "") -> Trial:
    """The two requests of an example, for its own target or another one."""
    provider = provider or example.provider
    protocol = protocol or example.protocol or entry_for(provider).protocol
    target = _Target(example, ModelRef(provider, model_id or example.model), protocol)
    without = dict.fromkeys(example.without, "off")
    raw = target.last({**without, **dict.fromkeys((example.rule, *example.also_off), "off")})
    cured = target.last(without)
    acts = cured.asked == example.rule or any(change.rule == example.rule for change in cured.changes)
    return Trial(
        example,
        provider,
        protocol,
        target.ref.model_id,
        raw.encoded,
        cured.encoded,
        cured.prompt,
        cured.changes,
        acts,
        raw.problem,
    )


def trials_for(provider: str, protocol: str, model_id: str = "", rules: Iterable[str] = ()) -> list[Trial]:
    """One trial for each rule that acts for this target, in the catalogue's order; `rules` are the only ones, if any.

    An example of the provider itself comes before one of another host of its protocol. Those take no model but the
    one that is asked for.
    """
    wanted = set(rules) or set(RULES)
    out = []
    for rule in RULES:
        found = [example for example in all_examples() if example.rule == rule and rule in wanted]
        for example in sorted(found, key=lambda each: each.provider != provider):
            own = example.provider == provider
            if (example.protocol or entry_for(example.provider).protocol) != protocol or not (own or model_id):
                continue
            trial = trial_of(example, provider=provider, protocol=protocol, model_id=model_id)
            if trial.acts and trial.raw and trial.cured and trial.raw.body != trial.cured.body:
                out.append(trial)
                break
    return out


class _Target:
    """An example on its way to one model."""

    def __init__(self, example: Example, ref: ModelRef, protocol: str) -> None:
        self.example, self.ref, self.protocol = example, ref, protocol
        tools = tuple(msgspec.convert(tool, Tool) for tool in example.tools)
        self.settings = Settings(ref.model_id, max_tokens=example.max_tokens, tools=tools, extra=example.settings)
        self.common: dict[str, Any] = {
            "model": ref,
            "protocol": protocol,
            "tool_names": [tool.name for tool in tools],
            "call_settings": example.settings,
        }

    def last(self, states: dict[str, str]) -> _Sent:
        """The last request of a run that meets the example's error once."""
        chain, listed = self._start(states)
        sent = self._sent(chain, listed)
        if self.example.error is None:
            return sent
        asked = chain.process_api_error(self._error(), listed, **self.common)
        if asked is None:
            return sent
        return msgspec.structs.replace(self._sent(chain, listed), asked=asked.retry.rule)

    def _start(self, states: dict[str, str]) -> tuple[Chain, MessageList]:
        chain = Chain(input=[ProviderHistoryCompat(compact_on_overflow=True)], switches=Switches(states))
        listed = MessageList()
        listed.add(list(self.example.messages), "memory")
        for text in self.example.system:
            listed.add_system(text)
        return chain, listed

    def _sent(self, chain: Chain, listed: MessageList) -> _Sent:
        prompt = self._prompt() or listed.to_prompt()
        result: PromptResult = chain.process_llm_request(prompt, listed, **self.common)
        try:
            encoded = request_for(
                self.ref.provider,
                self.protocol,
                result.prompt,
                self.settings,
                tool_names=result.tool_names,
                needs=result.needs,
            )
        except (EncodingError, UnicodeError) as error:
            return _Sent(None, result.prompt, tuple(result.changes), str(error))
        return _Sent(encoded, result.prompt, tuple(result.changes))

    def _prompt(self) -> Prompt | None:
        return prompt_from_json(self.example.prompt) if self.example.prompt else None

    def _error(self) -> ProviderError:
        refusal = self.example.error
        assert refusal is not None
        body = refusal.body if isinstance(refusal.body, str) else json.dumps(refusal.body)
        return wire_module(self.protocol).decode_error(refusal.status, {}, body, provider=self.ref.provider)
