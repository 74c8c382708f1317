"""The Python on the pages runs as it stands there, without Django."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "processors.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)

RUNNER = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"django", "ninja", "celery", "kombu"}:
            raise ImportError("the example asked for " + name)
sys.meta_path.insert(0, Blocker())
exec(compile(sys.stdin.read(), sys.argv[1], "exec"), {"__name__": "example"})
"""


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_example_runs(number: int) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", RUNNER, f"{PAGE.name}, example {number + 1}"],
        input=BLOCKS[number],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 0, ended.stderr


def test_page_shows_every_public_processor() -> None:
    text = "\n".join(BLOCKS)
    names = {"MessageHistory", "ToolCallFilter", "ProviderHistoryCompat", "StreamErrorRetryProcessor", "CompatRule"}
    assert [name for name in sorted(names) if f"{name}(" not in text] == []


def test_page_names_every_option() -> None:
    from memory.processors.config import BUILT_IN, option_names

    page = PAGE.read_text(encoding="utf-8")
    missing = [name for cls in BUILT_IN.values() for name in option_names(cls) if f"`{name}`" not in page]
    assert missing == []
