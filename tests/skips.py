"""In CI a test that skips has failed, unless its reason stands in `skips.txt`."""

from __future__ import annotations

import os
import re
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

ALLOWED = Path(__file__).with_suffix(".txt")


def is_allowed(reason: str) -> bool:
    """Whether a reason is listed; `*` in a line stands for any text."""
    lines = [line.strip() for line in ALLOWED.read_text(encoding="utf-8").splitlines()]
    patterns = [".*".join(map(re.escape, line.split("*"))) for line in lines if line and not line.startswith("#")]
    return any(re.fullmatch(pattern, reason.removeprefix("Skipped: "), re.DOTALL) for pattern in patterns)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    return report if hasattr(report, "wasxfail") else _judged(report)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return _judged((yield))


def _judged(report: Any) -> Any:
    if not report.skipped or not os.environ.get("CI"):
        return report
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    if not is_allowed(reason):
        report.outcome = "failed"
        report.longrepr = f"{reason}\nIn CI a skip is a failure, unless its reason stands in tests/{ALLOWED.name}."
    return report
