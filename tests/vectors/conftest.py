"""One test item a case: the files are the built-in ones, or those named by `--vectors`."""

import json
from pathlib import Path
from typing import Any

import pytest

CASES = Path(__file__).parent.parent / "cases"
BUILT_IN = [CASES / "processors.jsonl", CASES / "provider_rejections.jsonl", CASES / "own.jsonl"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" not in metafunc.fixturenames:
        return
    named = metafunc.config.getoption("--vectors")
    folder = metafunc.config.invocation_params.dir
    files = [folder / name for name in named] or BUILT_IN
    cases = [case for file in files for case in read_cases(file)]
    metafunc.parametrize("case", cases, ids=[case["id"] for case in cases])


def read_cases(file: Path) -> list[dict[str, Any]]:
    """The cases of a file, each marked with its kind: the first line tells whether it is about processors."""
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    kind = "processor" if lines and "processor" in lines[0] else "provider"
    return [{**line, "_kind": kind} for line in lines]
