"""Processors as data."""

from typing import Any

import pytest

from memory.errors import InvalidInput
from memory.processors import MemoryStorage, MessageHistory, ProcessAPIErrorArgs, StreamErrorRetryProcessor
from memory.processors.config import build_lists, default_lists, normalise_lists
from tests.processors.fakes import Hooks, failure

RETRY = "stream-error-retry-processor"


class Own(Hooks):
    id = "own"

    def __init__(self, *, limit: int = 1) -> None:
        self.limit = limit

    def process_input(self, args: Any) -> None:
        return


class TestLists:
    def test_are_the_defaults_only_where_none_is_named(self) -> None:
        assert normalise_lists({}) == default_lists()
        assert normalise_lists({"errorProcessors": []}) == {
            "input_processors": [],
            "output_processors": [],
            "error_processors": [],
        }

    def test_are_filled_from_the_short_form_by_hook(self) -> None:
        made = normalise_lists({"processors": ["message-history", RETRY, "own", "tool-call-filter"]}, {"own": Own})
        assert {name: [e["id"] for e in entries] for name, entries in made.items()} == {
            "input_processors": ["message-history", "own", "tool-call-filter"],
            "output_processors": ["message-history"],
            "error_processors": [RETRY],
        }

    def test_hold_options_in_snake_case(self) -> None:
        made = normalise_lists(
            {"inputProcessors": [{"id": "tool-call-filter", "options": {"filterAfterToolSteps": 2}}]}
        )
        assert made["input_processors"] == [{"id": "tool-call-filter", "options": {"filter_after_tool_steps": 2}}]

    def test_hold_the_rules_of_compat_always(self) -> None:
        (entry,) = normalise_lists({"inputProcessors": ["provider-history-compat"]})["input_processors"]
        assert entry["options"] == {"rules": "catalogue"}

    @pytest.mark.parametrize(
        ("given", "field", "hint"),
        [
            ({"inputProcesors": []}, "input_procesors", "did you mean input_processors"),
            ({"processors": [], "inputProcessors": []}, "processors", "either"),
            ({"processors": "x"}, "processors", "list"),
            ({"processors": ["tool-call-filtr"]}, "processors[0].id", "did you mean tool-call-filter"),
            ({"processors": [{"id": "tool-call-filter", "option": {}}]}, "processors[0]", "unknown key"),
            (
                {"processors": [{"id": "tool-call-filter", "options": {"exlude": []}}]},
                "processors[0].options.exlude",
                "did you mean exclude",
            ),
            (
                {"processors": [{"id": "tool-call-filter", "options": {"exclude": "x"}}]},
                "processors[0].options.exclude",
                "list of tool names",
            ),
            (
                {"processors": [{"id": RETRY, "options": {"maxRetries": "x"}}]},
                "processors[0].options.max_retries",
                "number",
            ),
            (
                {"processors": [{"id": RETRY, "options": {"matchers": [{"match": "odd"}]}}]},
                "processors[0].options.matchers[0].match",
                "code-equals",
            ),
            (
                {"processors": [{"id": RETRY, "options": {"matchers": [{"match": "status-equals", "value": "5"}]}}]},
                "processors[0].options.matchers[0].value",
                "needs a int",
            ),
            (
                {"processors": [{"id": RETRY, "options": {"delayMs": {"fn": "exponential", "base": 1, "jitter": 2}}}]},
                "processors[0].options.delay_ms.jitter",
                "from 0 to 1",
            ),
            (
                {"processors": [{"id": "message-history", "options": {"storage": 1}}]},
                "processors[0].options.storage",
                "no option",
            ),
        ],
    )
    def test_name_the_place_and_the_nearest_name(self, given: Any, field: str, hint: str) -> None:
        with pytest.raises(InvalidInput, match=hint) as refused:
            normalise_lists(given)
        assert [error.field for error in refused.value.errors] == [field]

    def test_build_equal_entries_as_one_object(self) -> None:
        built = build_lists(default_lists(), storage=MemoryStorage())
        assert built["input"][0] is built["output"][0]
        assert isinstance(built["input"][0], MessageHistory)


def retry(**options: Any) -> StreamErrorRetryProcessor:
    (entry,) = normalise_lists({"processors": [{"id": RETRY, "options": options}]})["error_processors"]
    lists = {"input_processors": [], "output_processors": [], "error_processors": [entry]}
    (made,) = build_lists(lists, storage=MemoryStorage())["error"]
    assert isinstance(made, StreamErrorRetryProcessor)
    return made


def wait(processor: StreamErrorRetryProcessor, error: Any, count: int = 0) -> float | None:
    answer = processor.process_api_error(ProcessAPIErrorArgs(error=error, retry_count=count))
    return answer.delay_ms if answer else None


class TestStoredRetries:
    @pytest.mark.parametrize(
        ("matcher", "error", "is_matched"),
        [
            ({"match": "code-equals", "value": "e_odd"}, failure(400, error_code="E_ODD"), True),
            ({"match": "code-equals", "value": "odd"}, {"code": "odder"}, False),
            ({"match": "status-equals", "value": 418}, failure(418), True),
            ({"match": "status-equals", "value": 418}, {"statusCode": 400}, False),
            ({"match": "message-matches", "value": "BUSY"}, failure(400, "I am busy"), True),
            ({"match": "dropped-connection"}, Exception("socket hang up"), True),
            ({"match": "bad-request"}, failure(400), True),
            ({"match": "bad-request"}, failure(422), False),
        ],
    )
    def test_match_by_data(self, matcher: Any, error: Any, is_matched: bool) -> None:
        assert (wait(retry(matchers=[matcher]), error) is not None) is is_matched

    def test_have_their_own_budget_and_delay(self) -> None:
        made = retry(
            matchers=[{"match": "bad-request", "maxRetries": 3, "delayMs": {"fn": "exponential", "base": 100}}]
        )
        assert [wait(made, failure(400), count) for count in range(4)] == [100, 200, 400, None]

    def test_grow_to_a_cap_and_scatter_downwards(self) -> None:
        made = retry(maxRetries=99, delayMs={"fn": "exponential", "base": 100, "cap": 300, "jitter": 0.5})
        waits = [wait(made, failure(), count) or 0 for count in range(9)]
        assert 50 <= waits[0] <= 100
        assert all(150 <= value <= 300 for value in waits[2:])
        assert wait(made, failure(), 98) is not None
