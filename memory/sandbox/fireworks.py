"""What Fireworks refuses: keys it does not know, of the request and of its messages.

Source: Fireworks' API reference (chat completions), and errors reported by client projects; last seen September 2026.
"""

from typing import Any

from memory.sandbox.chat_shape import OPENAI_KEYS, Fault, Shape, bracketed, walk
from memory.sandbox.wire import Refused, words

_SHAPE = Shape(
    request_keys=words(
        "context_length_exceeded_behavior frequency_penalty ignore_eos logit_bias logprobs max_completion_tokens"
        " max_tokens messages metadata min_p mirostat_lr mirostat_target model n parallel_tool_calls"
        " perf_metrics_in_response prediction presence_penalty prompt_cache_isolation_key prompt_cache_key"
        " prompt_truncate_len raw_output reasoning_effort reasoning_history repetition_penalty response_format"
        " safe_tokenization seed service_tier speculation stop stream temperature thinking tool_choice tools top_k"
        " top_logprobs top_p typical_p user"
    ),
    message_keys={**OPENAI_KEYS, "assistant": OPENAI_KEYS["assistant"] | {"reasoning_content"}},
)


def check(body: Any) -> None:
    """Nothing when the vendor would answer this request body; raises Refused where it would not."""
    try:
        walk(body, _SHAPE)
    except Fault as fault:
        raise Refused(_words(fault)) from None


def _words(fault: Fault) -> str:
    place = bracketed(fault.place) or "body"
    match fault.kind:
        case "key":
            return f"Extra inputs are not permitted, field: '{place}'"
        case "missing":
            return f"Field required, field: '{place}'"
        case "role" | "part":
            return f"Input should be a known {fault.kind}, field: '{place}', value: {fault.value!r}"
        case _:
            return f"Input should be {fault.wanted}, field: '{place}'"
