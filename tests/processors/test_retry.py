"""StreamErrorRetryProcessor: which failures are worth another call, and after what wait."""

import asyncio
import math
import threading
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from memory.errors import InvalidOption
from memory.processors import (
    ErrorMatcher,
    ProcessAPIErrorArgs,
    Retry,
    StreamErrorRetryProcessor,
    is_bad_request_error,
    is_dropped_connection,
    is_retryable_openai_responses_stream_error,
)
from tests.messages.build import NOW
from tests.processors.fakes import failure


def plain(message: str = "x", *, cause: Any = None, **fields: Any) -> Exception:
    error = Exception(message)
    for name, value in fields.items():
        setattr(error, name, value)
    if cause is not None:
        error.cause = cause  # type: ignore[attr-defined]
    return error


def decide(error: Any, *, retry_count: int = 0, now: datetime = NOW, **options: Any) -> Retry | None:
    processor = StreamErrorRetryProcessor(**options, clock=lambda: now)
    return processor.process_api_error(ProcessAPIErrorArgs(error=error, retry_count=retry_count))


def waits(headers: Any, **options: Any) -> float | None:
    """The wait for a retryable error with these headers."""
    error = failure(503)
    error.response_headers = headers
    answer = decide(error, **options)
    return answer.delay_ms if answer else None


class TestOptions:
    @pytest.mark.parametrize(
        ("options", "name"),
        [
            ({"max_retries": math.nan}, "max_retries"),
            ({"max_retries": "2"}, "max_retries"),
            ({"max_retries": True}, "max_retries"),
            ({"matchers": lambda e: True}, "matchers"),
            ({"matchers": ["x"]}, r"matchers\[0\]"),
            ({"matchers": [ErrorMatcher(match=bool, max_retries=math.nan)]}, r"matchers\[0\].max_retries"),
            ({"matchers": [ErrorMatcher(match=bool, delay_ms=True)]}, r"matchers\[0\].delay_ms"),
            ({"retry_unknown_errors": 1}, "retry_unknown_errors"),
            ({"delay_ms": "1"}, "delay_ms"),
            ({"max_retry_after_ms": "1"}, "max_retry_after_ms"),
            ({"max_retry_after_ms": True}, "max_retry_after_ms"),
        ],
    )
    def test_are_checked(self, options: Any, name: str) -> None:
        with pytest.raises(InvalidOption, match=name):
            StreamErrorRetryProcessor(**options)


OPENAI_CHUNK = {"type": "error", "error": {"code": "internal_error"}}


class TestMatching:
    @pytest.mark.parametrize(
        ("error", "is_matched"),
        [
            (failure(503), True),
            (failure(429), True),
            (failure(425), False),
            (failure(400), False),
            (failure(503, is_retryable=False), False),
            (plain(isRetryable=True), True),
            (plain(is_retryable="true"), False),
            (plain(is_retryable=1), False),
            (plain(status_code=503), False),
            (plain(is_retryable=False, cause=plain(is_retryable=True)), True),
            (plain(cause={"isRetryable": True}), True),
            ({"cause": {"cause": OPENAI_CHUNK}}, True),
            (plain(cause="text"), False),
            (None, False),
            ("text", False),
            (5, False),
        ],
    )
    def test_finds_the_flag_anywhere_in_the_causes(self, error: Any, is_matched: bool) -> None:
        assert (decide(error) is not None) is is_matched

    def test_follows_exceptions_raised_from_others(self) -> None:
        try:
            raise ValueError("outer") from failure(503)
        except ValueError as error:
            assert decide(error) is not None

    def test_ends_on_cycles_and_deep_chains(self) -> None:
        first, second = plain(), plain()
        first.cause, second.cause = second, first  # type: ignore[attr-defined]
        assert decide(first, retry_unknown_errors=True) is not None
        deep: Any = failure(503)
        for _ in range(20_000):
            deep = {"cause": deep}
        assert decide(deep) is not None

    @pytest.mark.parametrize("seen", [None, "text", 5])
    def test_shows_matchers_what_is_no_object(self, seen: Any) -> None:
        assert decide(seen, matchers=[lambda e: e == seen]) is not None

    def test_takes_the_first_matching_entry_and_its_own_policy(self) -> None:
        first = ErrorMatcher(match=lambda e: True, max_retries=3, delay_ms=5, name="first")
        second = ErrorMatcher(match=lambda e: True, max_retries=9, name="second")
        answer = decide(plain(), matchers=[lambda e: False, first, second], retry_count=2)
        assert answer is not None
        assert (answer.matched, answer.delay_ms) == ("first", 5)
        assert decide(plain(), matchers=[first, second], retry_count=3) is None

    def test_prefers_an_entry_to_the_flag_and_the_outer_error_to_its_cause(self) -> None:
        entry = ErrorMatcher(match=lambda e: True, delay_ms=7)
        assert getattr(decide(failure(503), matchers=[entry]), "delay_ms", None) == 7
        inner = ErrorMatcher(match=lambda e: isinstance(e, dict), delay_ms=7)
        outer = plain(is_retryable=True, cause={})
        assert getattr(decide(outer, matchers=[inner]), "delay_ms", None) == 0

    def test_never_shows_an_openai_chunk_to_matchers(self) -> None:
        entry = ErrorMatcher(match=lambda e: True, max_retries=0)
        assert decide(OPENAI_CHUNK, matchers=[entry]) is not None

    def test_falls_back_for_what_an_entry_leaves_out(self) -> None:
        entry = ErrorMatcher(match=lambda e: True)
        answer = decide(plain(), matchers=[entry], max_retries=2, delay_ms=9, retry_count=1)
        assert answer is not None
        assert answer.delay_ms == 9

    def test_runs_an_awaitable_matcher_to_its_end(self) -> None:
        async def never(error: Any) -> bool:
            return False

        async def always(error: Any) -> bool:
            return True

        assert decide(plain(), matchers=[never]) is None
        assert decide(plain(), matchers=[always]) is not None

    def test_passes_on_what_a_matcher_raises(self) -> None:
        def broken(error: Any) -> bool:
            raise RuntimeError("matcher blew up")

        with pytest.raises(RuntimeError, match="blew up"):
            decide(plain(), matchers=[broken])

    @pytest.mark.parametrize(
        ("limit", "count", "is_granted"), [(1, 0, True), (1, 1, False), (0, 0, False), (math.inf, 99, True)]
    )
    def test_ends_with_its_budget(self, limit: float, count: int, is_granted: bool) -> None:
        assert (decide(failure(), max_retries=limit, retry_count=count) is not None) is is_granted


class TestDelay:
    @pytest.mark.parametrize(
        ("delay", "expected"),
        [
            (5, 5),
            (0, 0),
            (-5, 0),
            (math.nan, 0),
            (math.inf, 0),
            (lambda args: 100 * (args.retry_count + 1), 200),
            (lambda args: "x", 0),
        ],
    )
    def test_is_finite_and_positive_or_none(self, delay: Any, expected: float) -> None:
        answer = decide(failure(), delay_ms=delay, retry_count=1, max_retries=2)
        assert getattr(answer, "delay_ms", None) == expected

    def test_may_be_awaited_even_beside_a_running_loop(self) -> None:
        async def delay(args: Any) -> float:
            await asyncio.sleep(0)
            return 40

        async def inside() -> Any:
            return decide(failure(), delay_ms=delay)

        assert getattr(decide(failure(), delay_ms=delay), "delay_ms", None) == 40
        assert getattr(asyncio.run(inside()), "delay_ms", None) == 40

    def test_tells_its_entry_before_the_wait(self) -> None:
        told: list[float] = []
        entry = ErrorMatcher(match=lambda e: True, delay_ms=7, on_retry=lambda args, delay_ms: told.append(delay_ms))
        decide(plain(), matchers=[entry])
        assert told == [7]

    def test_never_happens_here(self) -> None:
        signal = threading.Event()
        signal.set()
        args = ProcessAPIErrorArgs(error=failure(), abort_signal=signal)
        answer = StreamErrorRetryProcessor(delay_ms=60_000_000).process_api_error(args)
        assert getattr(answer, "delay_ms", None) == 60_000_000


class TestRetryAfter:
    @pytest.mark.parametrize(
        ("headers", "expected"),
        [
            ({"Retry-After": "3"}, 3000),
            ({"RETRY-AFTER": " 3 "}, 3000),
            ({"retry-after": "0"}, 0),
            ({"retry-after": "1.5"}, 0),
            ({"retry-after": "-3"}, 0),
            ({"retry-after": "1e3"}, 0),
            ({"retry-after": "٣"}, 0),
            ({"retry-after": ["3"]}, 0),
            ({"retry-after": 3}, 0),
            ({"retry-after-ms": "250"}, 250),
            ({"retry-after-ms": "250", "retry-after": "3"}, 250),
            ({"retry-after-ms": "x", "retry-after": "3"}, 3000),
            ({"retry-after": "99"}, 30_000),
            ([("retry-after", "3")], 0),
            (httpx.Headers({"Retry-After": "3"}), 3000),
            ({"retry-after": "Sun, 01 Mar 2026 12:00:05 GMT"}, 5000),
            ({"retry-after": "Sunday, 01-Mar-26 12:00:05 GMT"}, 5000),
            ({"retry-after": "Sun Mar  1 12:00:05 2026"}, 5000),
            ({"retry-after": "Sun, 01 Mar 2026 12:00:00 GMT"}, 0),
            ({"retry-after": "Sun, 01 Mar 2026 11:59:59 GMT"}, 0),
            ({"retry-after": "2026-03-01T12:00:05Z"}, 0),
            ({"retry-after": "Sun, 01 Mar 2026 12:00:05 +0000"}, 0),
            ({"retry-after": "1 Mar 2026 12:00:05 GMT"}, 0),
            ({"retry-after": "Sun, 31 Feb 2026 12:00:05 GMT"}, 0),
            ({"retry-after": "tomorrow"}, 0),
        ],
    )
    def test_reads_digits_and_http_dates_only(self, headers: Any, expected: float) -> None:
        assert waits(headers) == expected

    def test_takes_a_short_year_for_the_nearer_century(self) -> None:
        assert waits({"retry-after": "Tuesday, 01-Mar-77 12:00:05 GMT"}) == 0
        assert waits({"retry-after": "Sunday, 01-Mar-76 12:00:05 GMT"}) == 30_000

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ({"delay_ms": 5000}, 5000),
            ({"delay_ms": 1}, 3000),
            ({"max_retry_after_ms": 1000}, 1000),
            ({"max_retry_after_ms": 1000, "delay_ms": 90_000}, 90_000),
            ({"max_retry_after_ms": math.inf}, 0),
            ({"max_retry_after_ms": -1}, 0),
        ],
    )
    def test_waits_the_longer_of_both_and_caps_only_the_providers(self, options: Any, expected: float) -> None:
        assert waits({"retry-after": "3"}, **options) == expected

    def test_is_read_from_the_outside_inwards(self) -> None:
        inner = failure(503, response_headers={"retry-after": "2"})
        assert getattr(decide(plain(cause=inner)), "delay_ms", None) == 2000
        outer = failure(503, response_headers={"retry-after": "soon"})
        outer.cause = inner  # type: ignore[attr-defined]
        assert getattr(decide(outer), "delay_ms", None) == 2000

    def test_says_what_was_wanted_beside_what_is_granted(self) -> None:
        answer = decide(failure(429, retry_after_ms=60_000.0))
        assert answer is not None
        assert (answer.wanted_ms, answer.delay_ms) == (60_000, 30_000)
        assert "the cap allows 30 s" in answer.reason

    def test_prefers_what_the_protocol_found(self) -> None:
        answer = decide(failure(429, retry_after_ms=10.0, response_headers={"retry-after": "3"}))
        assert getattr(answer, "delay_ms", None) == 10


class TestUnknownErrors:
    @pytest.mark.parametrize(
        ("error", "is_retried"),
        [
            (plain(), True),
            (failure(400), True),
            ("text", True),
            (None, True),
            (plain(status_code=401), False),
            (plain(status=403), False),
            (plain(status_code="401"), True),
            (plain(status_code=400, status=401), True),
            (plain(code=" Invalid_API_Key "), False),
            (plain(type="authentication_error"), False),
            (plain(code="x", type="forbidden"), True),
            ({"error": {"data": {"type": "permission_denied"}}}, False),
            (plain(response_body='{"error": {"code": "access_denied"}}'), False),
            (plain(responseBody="{not json"), True),
            (plain(cause=plain(cause=plain(status=401))), False),
            (failure(400, error_code="invalid_api_key"), False),
        ],
    )
    def test_are_retried_on_request_but_never_a_lack_of_rights(self, error: Any, is_retried: bool) -> None:
        assert decide(error, retry_unknown_errors=False) is None
        assert (decide(error, retry_unknown_errors=True) is not None) is is_retried

    def test_leave_flagged_and_matched_errors_alone(self) -> None:
        assert decide(failure(401, is_retryable=True), retry_unknown_errors=True) is not None
        assert decide(failure(401), matchers=[lambda e: True]) is not None

    def test_have_the_processors_own_budget(self) -> None:
        answer = decide(plain(), retry_unknown_errors=True, max_retries=2, delay_ms=3, retry_count=1)
        assert getattr(answer, "delay_ms", None) == 3
        assert decide(plain(), retry_unknown_errors=True, max_retries=2, retry_count=2) is None

    @pytest.mark.parametrize(
        ("error", "options", "may_repeat"),
        [
            (failure(400), {"retry_unknown_errors": True}, True),
            (failure(400), {"matchers": [lambda e: True]}, True),
            (failure(400, is_retryable=True), {}, False),
            (OPENAI_CHUNK, {}, False),
        ],
    )
    def test_and_matchers_may_send_the_same_body_again(self, error: Any, options: Any, may_repeat: bool) -> None:
        assert getattr(decide(error, **options), "allows_same_body", None) is may_repeat


class TestMatchers:
    @pytest.mark.parametrize(
        ("error", "expected"),
        [
            *(
                ({"type": "error", "error": {"code": f"x_{code}_y".upper()}}, True)
                for code in (
                    "rate_limit",
                    "server_error",
                    "internal_error",
                    "timeout",
                    "temporarily_unavailable",
                    "service_unavailable",
                    "overloaded",
                )
            ),
            ({"type": "error", "error": {"type": "server_error"}}, True),
            ({"type": "error", "error": {"code": "x", "type": "server_error"}}, False),
            ({"type": "error", "error": {"code": None, "type": "server_error"}}, True),
            ({"type": "response.failed", "response": {"error": {"message": "YOU CAN RETRY YOUR REQUEST"}}}, True),
            ({"type": "response.failed", "error": {"code": "server_error"}}, False),
            ({"type": "response.incomplete", "response": {"error": {"code": "server_error"}}}, False),
            ({"code": "server_error"}, False),
            ({"type": "error", "error": {"code": "insufficient_quota"}}, False),
            ({"type": "error", "error": "server_error"}, False),
            (plain("server_error"), False),
            (None, False),
        ],
    )
    def test_know_the_stream_errors_of_openai(self, error: Any, expected: bool) -> None:
        assert is_retryable_openai_responses_stream_error(error) is expected

    @pytest.mark.parametrize(
        ("error", "expected"),
        [
            (failure(400), True),
            ({"statusCode": 400}, True),
            ({"status": 400}, False),
            ({"statusCode": "400"}, False),
            (failure(401), False),
            (plain(status=400), False),
            (None, False),
        ],
    )
    def test_know_bad_requests(self, error: Any, expected: bool) -> None:
        assert is_bad_request_error(error) is expected

    @pytest.mark.parametrize(
        ("error", "expected"),
        [
            (plain(code="econnreset"), True),
            (plain(code="EPIPE"), True),
            (plain("Socket Hang Up"), True),
            ({"message": "other side closed"}, True),
            (plain(code="ETIMEDOUT"), False),
            (None, False),
        ],
    )
    def test_know_dropped_connections(self, error: Any, expected: bool) -> None:
        assert is_dropped_connection(error) is expected
        assert (decide(error) is not None) is False


def test_clock_is_the_callers() -> None:
    late = datetime(2026, 3, 1, 12, 0, 4, tzinfo=UTC)
    error = failure(503, response_headers={"retry-after": "Sun, 01 Mar 2026 12:00:05 GMT"})
    assert getattr(decide(error, now=late), "delay_ms", None) == 1000
