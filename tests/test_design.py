"""DESIGN.md names every file."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_module_of_the_package_has_its_line_in_the_design() -> None:
    text = (ROOT / "DESIGN.md").read_text(encoding="utf-8")
    section = ""
    named: set[str] = set()
    for line in text.splitlines():
        if line.startswith("`") and line.endswith("/`"):
            section = line.strip("`")
        elif line.startswith("- `") and section:
            named.add(section + line.split("`")[1])
    files = {str(file.relative_to(ROOT)) for file in (ROOT / "harness").rglob("*.py")}
    missing = {file for file in files - named if not file.endswith("__init__.py")}
    assert missing == set()
    assert {name for name in named if name.startswith("harness/")} <= files
