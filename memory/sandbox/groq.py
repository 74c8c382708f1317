"""What Groq refuses: keys it does not know, and lists of content where it wants a text.

Source: Groq's API reference (chat completions), errors reported by client projects, and recorded exchanges; last seen
September 2026. No report tells that it looks at pairs of calls and results.
"""

import re
from typing import Any

from memory.sandbox.chat_shape import Fault, Shape, dotted, parts_of, walk
from memory.sandbox.wire import Refused, words

_SHAPE = Shape(
    roles=("system", "developer", "user", "assistant", "tool"),
    parts={"user": words("text image_url document"), "assistant": words("text")},
    request_keys=words(
        "citation_options compound_custom disable_tool_validation documents exclude_domains frequency_penalty"
        " function_call functions include_domains include_reasoning logit_bias logprobs max_completion_tokens"
        " max_tokens messages metadata model n parallel_tool_calls presence_penalty reasoning_effort reasoning_format"
        " response_format search_settings seed service_tier stop store stream stream_options temperature tool_choice"
        " tools top_logprobs top_p user"
    ),
    message_keys={
        "system": words("role content name"),
        "developer": words("role content name"),
        "user": words("role content name"),
        "assistant": words("role content name tool_calls function_call reasoning"),
        "tool": words("role content name tool_call_id"),
    },
)
_IMAGES = 5
_REASONING_MODEL = re.compile(r"gpt-oss|qwen3|deepseek-r1|compound")


def check(body: Any) -> None:
    """Nothing when the vendor would answer this request body; raises Refused where it would not."""
    try:
        walk(body, _SHAPE)
    except Fault as fault:
        raise Refused(_words(fault)) from None
    parts = (part for message in body["messages"] for part in parts_of(message))
    if sum(part["type"] == "image_url" for part in parts) > _IMAGES:
        raise Refused(f"Too many images provided. This model supports up to {_IMAGES} images")


def is_reasoning(body: dict[str, Any]) -> bool:
    """Whether the answer shows the reasoning beside its text."""
    is_off = body.get("reasoning_format") in ("hidden", "raw") or body.get("include_reasoning") is False
    return _REASONING_MODEL.search(body["model"]) is not None and body.get("reasoning_effort") != "none" and not is_off


def _words(fault: Fault) -> str:
    if fault.kind == "key":
        said = f"property '{fault.place[-1]}' is unsupported"
        inner = f"'{dotted(fault.place[:-1])}' : {said}" if fault.role else said
    elif fault.kind == "missing":
        inner = (
            f"'{dotted(fault.place)}' : property '{fault.place[-1]}' is missing" if fault.place else "no JSON object"
        )
    elif fault.kind in ("role", "part"):
        return f"'{dotted(fault.place[:-1])}' : discriminator property '{fault.place[-1]}' has invalid value"
    else:
        inner = f"'{dotted(fault.place)}' : value must be {fault.wanted}"
    if not fault.role:
        return inner
    return f"'{dotted(fault.place[:2])}' : for 'role:{fault.role}' the following must be satisfied[({inner})]"
