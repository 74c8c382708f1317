"""`python -m tests.mutants`: break one line at a time in a copy of the project and see that the fast tests notice.

Prints a line per mutant; ends with 1 when one survives or its line is not found.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.mutants import ROOT, Mutant, mutants, occurrences

FAST_TESTS = ("tests/vectors", "tests/messages", "tests/processors")
NEEDED = ("memory", "compat_admin", "tests", "pyproject.toml")


def main() -> int:
    bad_count = 0
    with tempfile.TemporaryDirectory(prefix="compat-admin-mutants-") as folder:
        copy = Path(folder)
        for name in NEEDED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__", "recordings"))
            else:
                shutil.copy(source, copy / name)
        if (code := _run(copy, *FAST_TESTS)) != 0:
            sys.stderr.write(f"The tests fail before anything is broken (code {code}).\n")
            return 1
        for number, mutant in enumerate(mutants(), start=1):
            began = time.monotonic()
            outcome = _outcome(copy, mutant)
            bad_count += outcome != "killed"
            seconds = time.monotonic() - began
            sys.stdout.write(f"{number:2} {outcome:8} {seconds:4.1f} s  {mutant.file}: {mutant.why}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{bad_count} not killed\n")
    return 1 if bad_count else 0


def _outcome(copy: Path, mutant: Mutant) -> str:
    """killed, survived, or missing where its line is not there exactly once."""
    file = copy / mutant.file
    text = file.read_text(encoding="utf-8")
    if occurrences(text, mutant.old) != 1:
        return "missing"
    file.write_text(text.replace(f"{mutant.old}\n", f"{mutant.new}\n", 1), encoding="utf-8")
    try:
        code = _run(copy, mutant.near) or _run(copy, *FAST_TESTS)
    finally:
        file.write_text(text, encoding="utf-8")
    return "killed" if code == 1 else "survived" if code == 0 else f"code {code}"


def _run(copy: Path, *tests: str) -> int:
    """Exit code of these tests. The properties are left out: what each mutant breaks has a test of its own."""
    command = [sys.executable, "-m", "pytest", *tests, "-x", "-q", "-p", "no:cacheprovider"]
    command += ["--ignore", "tests/processors/test_properties.py"]
    # Plugins take longer to load than these tests take to run, and none of them uses one.
    variables = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(command, cwd=copy, env=variables, capture_output=True, timeout=120).returncode


if __name__ == "__main__":
    sys.exit(main())
