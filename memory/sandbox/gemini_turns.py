"""What Gemini refuses about a conversation as a whole: the order of turns, calls and their responses, signatures."""

import base64
import binascii
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from memory.sandbox.gemini_words import made_on, version
from memory.sandbox.wire import Refused

SKIP = "skip_thought_signature_validator"
"""Documented to stand for a signature that the caller does not have; also in base64."""
_SKIPS = {SKIP, base64.b64encode(SKIP.encode()).decode()}


class Turn(Struct, frozen=True):
    """A content: `user` or `model`, its parts with keys in camelCase."""

    role: str
    parts: tuple[dict[str, Any], ...]

    @property
    def calls(self) -> list[dict[str, Any]]:
        return [part for part in self.parts if "functionCall" in part]

    @property
    def responses(self) -> list[dict[str, Any]]:
        return [part for part in self.parts if "functionResponse" in part]


def check_conversation(turns: Sequence[Turn], model: str, *, is_vertex: bool) -> None:
    """Raises Refused where the vendor would refuse the turns of a request, read one by one before."""
    _check_order(turns, model)
    if turns[-1].role == "model":
        raise _refused("Please ensure that single turn requests end with a user role or the role field is empty.")
    for turn in turns:
        for part in turn.parts:
            if "thoughtSignature" in part:
                _check_signature(part["thoughtSignature"], is_vertex=is_vertex)
    if version(model) >= 3:
        _check_signed(turns)


def _check_order(turns: Sequence[Turn], model: str) -> None:
    for begin, end in _runs(turns):
        run = turns[begin:end]
        if run[0].role == "model":
            _check_calls(turns, begin, end, model)
        else:
            _check_responses(turns, begin, end)


def _runs(turns: Sequence[Turn]) -> Iterator[tuple[int, int]]:
    """Begin and end of neighbouring contents of one role."""
    begin = 0
    for at in range(1, len(turns) + 1):
        if at == len(turns) or turns[at].role != turns[begin].role:
            yield begin, at
            begin = at


def _check_calls(turns: Sequence[Turn], begin: int, end: int, model: str) -> None:
    """Calls stand behind a user content, and the next content has a response for each."""
    calling = [at for at in range(begin, end) if turns[at].calls]
    if not calling:
        return
    # Gemini 3 takes neighbouring model contents for one turn.
    if begin == 0 or (version(model) < 3 and calling[-1] > begin):
        raise _refused(
            "Please ensure that function call turn comes immediately after a user turn or after a function response"
            " turn."
        )
    count = sum(len(turns[at].calls) for at in calling)
    answered = len(turns[end].responses) if end < len(turns) else 0
    if count != answered:
        raise _refused(
            "Please ensure that the number of function response parts is equal to the number of function call parts of"
            " the function call turn."
        )


def _check_responses(turns: Sequence[Turn], begin: int, end: int) -> None:
    for at in range(begin, end):
        is_behind = at == begin and at > 0 and turns[at - 1].calls
        if turns[at].responses and not is_behind:
            raise _refused("Please ensure that function response turn comes immediately after a function call turn.")


def _check_signature(sealed: str, *, is_vertex: bool) -> None:
    if sealed in _SKIPS:
        return
    plain = sealed.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        raw = base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if not raw or made_on(raw) not in (None, "vertex" if is_vertex else "gemini"):
        raise _refused(
            "Unable to submit request because Thought signature is not valid.."
            if is_vertex
            else "Corrupted thought signature."
        )


def _check_signed(turns: Sequence[Turn]) -> None:
    """The first call of each step since the user last spoke is signed."""
    last_said = max((at for at, turn in enumerate(turns) if turn.role == "user" and not turn.responses), default=-1)
    for at in range(last_said + 1, len(turns)):
        if turns[at].calls and "thoughtSignature" not in turns[at].calls[0]:
            name = turns[at].calls[0]["functionCall"]["name"]
            raise _refused(
                "Function call is missing a thought_signature in functionCall parts. This is required for tools to"
                " work correctly, and missing thought_signature may lead to degraded model performance. Additional"
                f" data, function call `default_api:{name}` , position {at + 1}. "
            )


def _refused(message: str) -> Refused:
    return Refused(message.strip(), kind="INVALID_ARGUMENT")
