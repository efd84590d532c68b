"""The signatures on file are those of the engines the lab builds."""

import pytest
from tests.e2e.engines import PrintingReporter, cache_directory
from tests.source_check import targets
from tests.source_check.extract import extract
from tests.source_check.signatures import read
from tests.source_check.sources import Sources

from falseok_collector.hooks.connectors import CONNECTORS
from falseok_lab.environment import build

pytestmark = pytest.mark.lab


def test_the_file_says_what_installed_engines_say() -> None:
    """Of every function and attribute of the table, for every supported engine there is."""
    for version in ("0.27.0", "0.32.0"):
        build(version, cache_directory(), PrintingReporter())
    on_file, table = read(), targets.table()
    installed = {
        package.parents[3].name.partition("-")[0]: Sources.open(package.parent)
        for package in cache_directory().glob("engines/*/lib/python*/site-packages/vllm")
    }
    found = extract(
        {version: sources for version, sources in installed.items() if version in on_file.versions},
        targets.functions(table, CONNECTORS),
        targets.attributes(table),
    )
    assert {"0.27.0", "0.32.0"} <= set(found.versions)
    assert found == on_file.without(set(on_file.versions) - set(found.versions))
