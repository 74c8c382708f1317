"""What a provider takes, as plain facts. Passes read facts; no pass knows a provider's name."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from typing import Any, Literal

from msgspec import Struct

Handling = Literal["accept", "drop", "synthesise", "to-text"]


class Fact(Struct, frozen=True):
    """Where a fact comes from: the rule it serves, a source and the day it was last seen to hold."""

    rule: str
    source: str
    seen_on: str


class IdFormat(Struct, frozen=True):
    """Which tool call ids are taken."""

    refused: str = ""
    """Pattern of one refused character; empty: any character is taken."""
    longest: int = 0
    """0: any length."""
    exactly: int = 0
    """Length every id has to have; 0: any."""
    may_be_empty: bool = True
    refused_first: str = ""
    """Pattern of a refused first character; the id then gets an underscore in front."""

    def fits(self, call_id: str) -> bool:
        if not call_id and not self.may_be_empty:
            return False
        if (self.longest and len(call_id) > self.longest) or (self.exactly and len(call_id) != self.exactly):
            return False
        if self.refused_first and _pattern(self.refused_first).match(call_id):
            return False
        return not (self.refused and _pattern(self.refused).search(call_id))

    def fit_all(self, call_ids: Collection[str]) -> bool:
        if self.refused_first or self.exactly or not self.may_be_empty:
            return all(map(self.fits, call_ids))
        if self.longest and max(map(len, call_ids), default=0) > self.longest:
            return False
        # A pattern of one character finds it in all of them at once.
        return not (self.refused and _pattern(self.refused).search("".join(call_ids)))

    def forms(self, call_id: str) -> Iterator[str]:
        """Forms of an id in order of preference: plain, then with `_2`, `_3`. Too long: a hash, never a cut prefix."""
        if self.exactly and not self.fits(call_id):
            number = 1
            while True:
                yield _base62(call_id if number == 1 else f"{call_id}#{number}")[: self.exactly]
                number += 1
        plain = _pattern(self.refused).sub("_", call_id) if self.refused else call_id
        if not plain and not self.may_be_empty:
            plain = "_"
        if self.refused_first and _pattern(self.refused_first).match(plain):
            plain = f"_{plain}"
        if self.longest and len(plain) > self.longest:
            plain = "call_" + hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:24]
        yield plain
        number = 2
        while True:
            yield f"{plain}_{number}"
            number += 1


_pattern = cache(re.compile)
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def _base62(text: str) -> str:
    """The SHA-256 of a text as 43 letters and digits."""
    number = int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest())
    out = []
    for _ in range(43):
        number, digit = divmod(number, 62)
        out.append(_DIGITS[digit])
    return "".join(out)


class ImageLimits(Struct, frozen=True):
    """How large images may be, in pixels a side and bytes, and how many a request may hold; 0: any number."""

    longest: int = 8000
    longest_of_many: int = 2000
    many: int = 20
    """More images than these are many."""
    most_bytes: int = 5 * 1024 * 1024
    most: int = 0

    def longest_among(self, count: int) -> int:
        return self.longest_of_many if count > self.many else self.longest


class Profile(Struct, frozen=True):
    """Facts about a provider and a family of its models. The defaults are those of a provider we know nothing about.

    `rules` maps a fault to the rule id that changes carry for this target; a fault without an entry goes by its
    `any-` id.
    """

    id: str
    provider: str
    title: str
    protocol: str = ""
    models: tuple[str, ...] = ("*",)
    tool_ids: IdFormat = IdFormat()
    tool_names: IdFormat = IdFormat("[^a-zA-Z0-9_-]")
    reasoning: Literal["keep", "drop", "native", "own"] = "keep"
    """`native`: only what carries a seal of this provider; `own`: all but what another provider is known to have
    written."""
    signers: tuple[str, ...] = ()
    """Providers whose seals are taken; empty: this one's alone."""
    seals_by_model: bool = False
    """A seal is good for the model that set it only."""
    reasoning_filler: Literal["", "empty", "placeholder"] = ""
    """What stands for the reasoning of a turn with calls that has none; empty text: none is wanted."""
    thinking_leads: bool = False
    """With thinking on, the open tool loop has to begin with thinking."""
    final_thinking: bool = True
    """Whether a request with thinking off may end with an assistant message that holds thinking."""
    signs_calls: bool = False
    """The first call of a step carries a thought signature."""
    signs_parts: bool = False
    """Parts may carry thought signatures, which are checked."""
    checks_item_ids: bool = False
    """Item ids have the form this provider gives them, and are known to it alone."""
    reads_sealed: bool = True
    """Whether reasoning may be sealed data without a text, as Claude's may."""
    seal_prefix: str = ""
    """How sealed reasoning begins."""
    item_ids: bool = False
    """Parts carry ids of items that the server may know."""
    input_object: bool = True
    """Arguments of calls are JSON objects."""
    unique_ids: Literal["", "message", "thread"] = "message"
    """Where a call id may stand only once."""
    seals: tuple[str, ...] = ()
    """Keys of this namespace that show who made a reasoning part: a signature, an item id."""
    namespace: str = ""
    """Key of this provider's options, by which its own reasoning is known."""
    kept_under: str = ""
    """Namespace of what its protocol module keeps, where that is another one."""
    also_under: str = ""
    """Namespace that is read where that one says nothing."""
    files_inline: tuple[str, ...] = ("*",)
    """Media types taken as base64, as globs."""
    files_by_url: tuple[str, ...] = ("*",)
    plain_text_files: bool = False
    """A plain text file is sent as its text, so it has to be one."""
    unique_documents: bool = False
    """Whether the names of documents have to differ."""
    text_beside_documents: bool = False
    """A message with a document has to hold a text."""
    images: ImageLimits | None = None
    url_schemes: tuple[str, ...] = ()
    """Which URLs are taken; empty: all."""
    reads_blocks: bool = True
    """Whether it may read blocks of its protocol that the protocol's module does not know."""
    null_fields: bool = True
    """Whether a key of a block may be null."""
    exact_types: bool = False
    """Media types are checked; a wildcard is none."""
    media_in_results: bool = True
    """Whether a tool result may hold images."""
    urls_in_results: bool = True
    """Whether they may be given by URL."""
    hosts_tools: bool = True
    """Whether a history may hold calls that the provider ran itself."""
    hosted_ids: str = ""
    """Pattern of the ids of such calls; empty: any."""
    hosted_call_marks: tuple[str, ...] = ()
    """Options of such a call (`call.type`) of which one has to be there, or it can't be sent back; empty: none."""
    hosted_result_marks: tuple[str, ...] = ()
    """The same for its result."""
    blank_text: Literal["accept", "drop", "drop-empty"] = "accept"
    """`drop-empty`: white space is taken, no text at all is not."""
    break_after_file: bool = False
    """A text of one line break behind a file is taken, blank as it is."""
    pending_call: Handling = "accept"
    unpaired: Handling = "accept"
    system_between: bool = True
    """Whether a system message may stand between the turns."""
    system_after_user: bool = False
    """Such a system message has to stand behind one of the user, or of the system."""
    developer_role: bool = True
    """Whether there is a role developer."""
    listed_system: bool = True
    """Whether a system message may hold a list of texts."""
    message_names: IdFormat | None = None
    """Which names of speakers are taken; None: any."""
    empty_result: str | None = None
    """What stands for a result that says nothing, which may then be no empty list; None: whatever is stored."""
    thinks_alone: bool = True
    """Whether an assistant message may hold reasoning and nothing else."""
    drops_empty: tuple[str, ...] = ("system", "user", "assistant")
    """Roles whose messages are refused without content."""
    assistant_files: bool = False
    """Whether an assistant message may hold files."""
    merge_roles: tuple[str, ...] = ()
    """Roles whose neighbouring messages are refused."""
    bridge_after_tool: bool = False
    """The assistant has to speak between a tool's result and the user."""
    last_user: Literal["", "thinking", "always"] = ""
    """Where a request may not end with the assistant: with thinking on, or always; empty: anywhere."""
    trims_last_text: bool = False
    """A final assistant text may not end in white space."""
    further: Mapping[str, tuple[str, ...]] | None = None
    """Keys taken beside those that the protocol module writes, by what holds them (`call.callExtra`); `*` is any.
    None: any, everywhere."""
    further_forms: Mapping[str, tuple[str, ...]] = {}
    """What such a key may say where that is known, by the key or by what holds it too (`file.content.detail`): one of
    these words; `{}` is any object, `[]` any list, `0` any number."""
    cache_markers: int = 0
    """How many cache markers are taken; 0: there is no limit."""
    marks_reasoning: bool = True
    """Whether reasoning may carry a cache marker."""
    declares_called_tools: bool = False
    """Where the history calls tools, some have to be declared."""
    reminder_tags: bool = True
    """Whether reminder tags pass the content filter."""
    first_user: Literal["accept", "synthesise"] = "accept"
    rules: Mapping[str, str] = {}
    facts: tuple[Fact, ...] = ()

    def space(self, options: Mapping[str, Any] | None) -> str:
        """The namespace in which the protocol module finds what these options keep for the target."""
        own = self.kept_under or self.namespace
        if self.also_under and options and not options.get(own) and options.get(self.also_under):
            return self.also_under
        return own

    def own(self, options: Mapping[str, Any] | None) -> Mapping[str, Any]:
        """What these options keep for the target; empty where that is nothing."""
        if not options:
            return {}
        value = options.get(self.kept_under or self.namespace)
        if self.also_under and not value:
            value = options.get(self.also_under) or value
        # A dict is nearly all there is; the general question costs ten times as much.
        return value if type(value) is dict or isinstance(value, Mapping) else {}

    def with_own(self, options: Mapping[str, Any] | None, own: Mapping[str, Any]) -> dict[str, Any]:
        """These options with something else kept for the target."""
        space = self.space(options)
        out = {**(options or {}), space: own}
        if not own and space != self.also_under:
            out.pop(self.also_under, None)  # what is left of one is read in no other's place
        return out

    def takes_seals_of(self, provider: str) -> bool:
        return provider in (self.signers or (self.provider,))

    def rule(self, fault: str) -> str:
        """The rule id a change for this fault carries."""
        return self.rules.get(fault, f"any-{fault}")
