"""Real behaviour written down as input and right answer."""

from typing import Any

from tests.vectors import provider_cases
from tests.vectors.descriptors import KNOWN_KEYS
from tests.vectors.processor_cases import HOOKS, run_case


def test_case(case: dict[str, Any]) -> None:
    case = dict(case)
    if case.pop("_kind") == "provider":
        provider_cases.run_case(case)
        return
    unknown = set(case) - KNOWN_KEYS
    assert not unknown, f"the case has keys nobody reads: {unknown}"
    hook = (case["processor"], case["hook"])
    assert hook in HOOKS, f"nobody runs {hook}"
    run_case(case)
