"""Markers of the tests by what makes them slow: from the fixtures they use, or from their file.

`make test-fast` runs the tests without them. A single slow test in a file of other tests is
marked where it stands.
"""

from __future__ import annotations

from pathlib import Path

import pytest

__all__ = ["FILES", "is_long", "mark"]

_TESTS = Path(__file__).parent

_FIXTURES = {
    "load_airport": ("process", "real_client"),
    "mariadb": ("database_server",),
    "postgresql": ("database_server",),
    "s3": ("s3",),
    "spark": ("spark",),
}

# A test with one of these parameters has the fixture `make_lake` start the server.
_SERVER_KINDS = {"mariadb", "mysql", "postgresql"}

# Files and folders whose tests start processes or Spark without a fixture, or take long.
FILES = {
    "airport/test_memory_bounds.py": ("process",),
    "cli/test_arrow_memory.py": ("process",),
    "cli/test_crowd.py": ("process",),
    "cli/test_drain_lake.py": ("process", "spark"),
    "cli/test_recovery.py": ("process", "spark"),
    "cli/test_serve.py": ("process",),
    "cli/test_serve_lake.py": ("process", "spark"),
    "cli/test_serve_without_spark.py": ("process",),
    "cli/test_growth_soak.py": ("process", "soak", "spark"),
    "cli/test_soak.py": ("process", "soak", "spark"),
    "cli/test_start_up.py": ("process",),
    "cli/test_warm_up.py": ("process",),
    "console": ("process",),
    "differential": ("exhaustive",),
    "ducklake/maintenance/test_compaction.py": ("exhaustive",),
    "ducklake/maintenance/test_encrypted_and_variants.py": ("exhaustive",),
    "ducklake/maintenance/test_expiry.py": ("exhaustive",),
    "ducklake/maintenance/test_flush.py": ("exhaustive",),
    "ducklake/maintenance/test_killed_processes.py": ("process",),
    "ducklake/maintenance/test_races.py": ("exhaustive",),
    "ducklake/doctor": ("exhaustive",),
    "ducklake/maintenance/test_soak.py": ("soak",),
    "ducklake/test_changes.py": ("exhaustive",),
    "ducklake/test_freshness.py": ("process",),
    "ducklake/test_partition_pruning.py": ("exhaustive",),
    "ducklake/test_state_machine.py": ("exhaustive",),
    "ducklake/writing/test_appending.py": ("exhaustive",),
    "ducklake/writing/test_appends.py": ("exhaustive",),
    "ducklake/writing/test_ddl.py": ("exhaustive",),
    "ducklake/writing/test_file_search.py": ("exhaustive",),
    "ducklake/writing/test_file_statistics.py": ("exhaustive",),
    "ducklake/writing/test_format_1_1.py": ("exhaustive",),
    "ducklake/writing/test_merge.py": ("exhaustive",),
    "ducklake/writing/test_mixed_changes.py": ("exhaustive",),
    "ducklake/writing/test_restore.py": ("exhaustive",),
    "ducklake/writing/test_row_changes.py": ("exhaustive",),
    "ducklake/writing/test_row_transactions.py": ("exhaustive",),
    "ducklake/writing/test_same_changes.py": ("exhaustive",),
    "ducklake/writing/test_shared_life.py": ("exhaustive",),
    "ducklake/writing/test_two_writers.py": ("exhaustive",),
    "ducklake/writing/test_killed_writers.py": ("process", "soak"),
    "ducklake/writing/test_writer_processes.py": ("process", "soak"),
    "lakehouse/writing/test_concurrent_writers.py": ("process",),
    "lakehouse/writing/test_changing_functions.py": ("exhaustive",),
    "lakehouse/writing/test_recordings.py": ("exhaustive",),
    "lakehouse/writing/test_rows.py": ("exhaustive",),
    "end_to_end/test_concurrency.py": ("soak",),
    "examples": ("process",),
    "lakehouse/test_view_dialect.py": ("exhaustive",),
    "memory/test_expression_bounds.py": ("process",),
    "observability/test_memory.py": ("process",),
    "observability/test_traces.py": ("process",),
    "policies": ("process",),
    "spark/test_class_archive.py": ("process",),
    "spark/test_clusters.py": ("process", "spark"),
    "spark/test_lost_session.py": ("process", "spark"),
    "spark/writing/test_interrupted_writes.py": ("process", "spark"),
    "test_fixtures.py": ("database_server",),
}


def mark(item: pytest.Item) -> None:
    """Add the markers of a collected test."""
    names = {name for fixture in _fixtures(item) for name in _FIXTURES.get(fixture, ())}
    if _SERVER_KINDS & _parameters(item):
        names.add("database_server")
    path = item.path.relative_to(_TESTS)
    for place in (path, *path.parents):
        names.update(FILES.get(place.as_posix(), ()))
    for name in sorted(names):
        item.add_marker(name)


def is_long(item: pytest.Item) -> bool:
    """Return whether a marked test waits for processes, which takes seconds."""
    return any(item.get_closest_marker(name) for name in ("process", "soak", "spark"))


def _fixtures(item: pytest.Item) -> list[str]:
    return item.fixturenames if isinstance(item, pytest.Function) else []


def _parameters(item: pytest.Item) -> set[str]:
    call = getattr(item, "callspec", None)
    return set() if call is None else {v for v in call.params.values() if isinstance(v, str)}
