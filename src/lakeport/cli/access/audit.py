"""The audit trail of a server, from `[audit]` of its configuration."""

from __future__ import annotations

from collections.abc import Mapping

from lakeport.cli.access.settings import AuditSettings
from lakeport.cli.arguments import is_lake, resolve_uri, storage_of
from lakeport.cli.config import LakeSettings
from lakeport.ducklake import Lake
from lakeport.errors import DefinitionError
from lakeport.observability import AuditTable, AuditTrail

__all__ = ["audit_trail"]


def audit_trail(settings: AuditSettings, lakes: Mapping[str, LakeSettings]) -> AuditTrail | None:
    """Return the trail of the settings; None if they name neither a file nor a table."""
    if settings.file is None and settings.table is None:
        return None
    return AuditTrail(settings.file, table=_audit_table(settings, lakes))


def _audit_table(settings: AuditSettings, lakes: Mapping[str, LakeSettings]) -> AuditTable | None:
    """Return the table of the audit trail, with a connection to its lake of its own."""
    if settings.table is None:
        return None
    name, _, table = settings.table.partition(".")
    lake = lakes.get(name)
    uri = "" if lake is None else resolve_uri(lake.uri)
    if lake is None or not is_lake(uri):
        raise DefinitionError(f"the table of the audit trail is in {name!r}, which is no lake here")
    opened = Lake.open(
        uri,
        data_path=lake.data_path,
        metadata_schema=lake.metadata_schema,
        storage=storage_of(lake),
        database_timeout=lake.database_timeout,
        engine="local",
        confine=lake.confine,
    )
    try:
        return AuditTable(opened, table, seconds=settings.table_seconds)
    except BaseException:
        opened.close()
        raise
