"""The four processors, the interface of one's own, and the loop that runs them. Works without Django."""

from memory.messages.lists import MessageList
from memory.messages.names import ModelRef
from memory.processors.base import (
    ProcessAPIErrorArgs,
    ProcessInputArgs,
    ProcessInputStepArgs,
    ProcessLLMRequestArgs,
    ProcessOutputResultArgs,
    PromptResult,
    Retry,
    Switches,
    TurnEnd,
    abort,
)
from memory.processors.calls import Turn
from memory.processors.chain import Chain
from memory.processors.compat.processor import ProviderHistoryCompat
from memory.processors.compat.rule import CompatRule
from memory.processors.history import MessageHistory
from memory.processors.loop import run_turn
from memory.processors.retry import (
    ErrorMatcher,
    StreamErrorRetryProcessor,
    is_bad_request_error,
    is_dropped_connection,
    is_retryable_openai_responses_stream_error,
)
from memory.processors.storage import HistoryStorage, MemoryStorage
from memory.processors.tool_filter import ToolCallFilter

__all__ = [
    "Chain",
    "CompatRule",
    "ErrorMatcher",
    "HistoryStorage",
    "MemoryStorage",
    "MessageHistory",
    "MessageList",
    "ModelRef",
    "ProcessAPIErrorArgs",
    "ProcessInputArgs",
    "ProcessInputStepArgs",
    "ProcessLLMRequestArgs",
    "ProcessOutputResultArgs",
    "PromptResult",
    "ProviderHistoryCompat",
    "Retry",
    "StreamErrorRetryProcessor",
    "Switches",
    "ToolCallFilter",
    "Turn",
    "TurnEnd",
    "abort",
    "is_bad_request_error",
    "is_dropped_connection",
    "is_retryable_openai_responses_stream_error",
    "run_turn",
]
