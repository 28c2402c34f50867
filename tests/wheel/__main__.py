"""Build the wheel and the source distribution, and use each extra in a clean environment.

`python -m tests.wheel [EXTRA …]` (make test-wheel) makes one environment for each extra, without
the packages of this checkout, and runs `smoke.py` there. With the extra `spark` it also checks the
types of the examples, as a user's mypy does. Needs a package index.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]
SMOKE = Path(__file__).with_name("smoke.py")
EXTRAS = ("", "pandas", "polars", "console", "traces", "spark,java", "connect,spark,java")


def main(extras: list[str]) -> None:
    """Check the distributions with the given extras, or with all."""
    with tempfile.TemporaryDirectory(prefix="lakeport-wheel-") as folder:
        wheel, source = _build(Path(folder, "dist"))
        for number, extra in enumerate(extras or EXTRAS):
            print(f"== {wheel.name}[{extra}]", flush=True)
            _check(Path(folder, str(number)), wheel, extra)
        print(f"== {source.name}", flush=True)
        _check(Path(folder, "source"), source, "")


def _build(folder: Path) -> tuple[Path, Path]:
    builder = folder.parent / "builder"
    python = _environment(builder)
    _run([python, "-m", "pip", "install", "--quiet", "build"])
    _run([python, "-m", "build", "--outdir", str(folder), str(ROOT)], quiet=True)
    (wheel,), (source,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, source


def _check(folder: Path, distribution: Path, extra: str) -> None:
    python = _environment(folder)
    target = f"{distribution}[{extra}]" if extra else str(distribution)
    _run([python, "-m", "pip", "install", "--quiet", target])
    _run([python, str(SMOKE), *filter(None, extra.split(","))], cwd=folder)
    if extra == "spark,java":
        _run([python, "-m", "pip", "install", "--quiet", "mypy", "pandas-stubs", "polars"])
        # The package is found by its py.typed; the settings of this checkout are not used.
        mypy = [python, "-m", "mypy", "--strict", "--ignore-missing-imports"]
        examples = [str(path) for path in sorted((ROOT / "examples").glob("*.py"))]
        _run([*mypy, "--config-file", os.devnull, *examples], cwd=folder)


def _environment(folder: Path) -> str:
    venv.create(folder, with_pip=True)
    return str(folder / "bin" / "python")


def _run(command: list[str], *, cwd: Path | None = None, quiet: bool = False) -> None:
    # Packages of this checkout must not be found.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    output = subprocess.DEVNULL if quiet else None
    subprocess.run(command, check=True, cwd=cwd, env=environment, stdout=output)


if __name__ == "__main__":
    main(sys.argv[1:])
