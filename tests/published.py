"""Schemas that others publish, for the tests that hold our reports against them.

They come from their publishers' packages, each of one version, unpacked in the
cache; none is kept here.
"""

from __future__ import annotations

import functools
import io
import json
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from stormdrain.revisions import Cache
from stormdrain.revisions.releases import fetch_release

SARIF = ("@microsoft/jest-sarif", "1.0.0-beta.0", "package/lib/schemas/sarif-2.1.0-rtm.5.json")
"""MIT; the schema of SARIF 2.1.0 as OASIS published it."""
MUTATION = ("mutation-testing-report-schema", "3.8.4", "package/src/mutation-testing-report-schema.json")
"""Apache-2.0."""
JUNIT = ("pytest", "8.4.2", "testing/example_scripts/junit-10.xsd")
"""MIT; the schema of the xunit plugin of Jenkins, in the tests of pytest."""


def npm_schema(package: str, version: str, member: str) -> Any:
    """A JSON schema out of an npm package; the test is skipped where there is neither npm nor what it once fetched."""
    kept = Cache().root / "published" / f"{package.replace('/', '+')}-{version}.json"
    if not kept.exists():
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip(f"npm is not here: the schema of {package} cannot be had")
        kept.parent.mkdir(parents=True, exist_ok=True)
        draft = kept.with_suffix(f".{id(kept)}.tmp")
        draft.mkdir()
        try:
            asked = [npm, "pack", "--silent", f"{package}@{version}"]
            done = subprocess.run(asked, cwd=draft, capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(f"the registry does not hand out {package}: {done.stderr.strip()[-200:]}")
            with tarfile.open(next(draft.glob("*.tgz"))) as archive:
                found = archive.extractfile(member)
                assert found is not None
                (draft / "schema.json").write_bytes(found.read())
            (draft / "schema.json").replace(kept)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return json.loads(kept.read_bytes())


@functools.cache
def junit_schema() -> Any:
    """The XSD of JUnit reports, ready to validate."""
    from lxml import etree

    _, tree = fetch_release(JUNIT[0], JUNIT[1], Cache())
    assert tree is not None
    return etree.XMLSchema(etree.parse(str(tree / JUNIT[2])))


def check_json(document: str, schema: Any) -> None:
    """Hold a JSON document against a schema of any draft; the first errors are told with their places."""
    from jsonschema.validators import validator_for

    kind = validator_for(schema)
    errors = [f"{error.json_path}: {error.message[:300]}" for error in kind(schema).iter_errors(json.loads(document))]
    assert not errors, "\n".join(errors[:5])


def check_junit(document: str) -> None:
    """Hold a JUnit report against the schema."""
    from lxml import etree

    schema = junit_schema()
    tree = etree.parse(io.BytesIO(document.encode()))
    assert schema.validate(tree), str(schema.error_log)[:1000]


def check_yaml(path: Path, schema: str) -> None:
    """Hold a file against a schema of SchemaStore's that check-jsonschema carries: `github-actions`, `gitlab-ci`, ..."""
    asked = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", str(path)]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
