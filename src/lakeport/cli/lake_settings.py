"""The sections of the configuration about lakes: what is served, its storage, its maintenance."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from lakeport.catalog import STATISTICS_ROWS
from lakeport.ducklake import SMALL_SCAN_BYTES
from lakeport.ducklake.maintenance import MaintenancePolicy

__all__ = ["LakeSettings", "MaintenanceSettings", "StorageSettings", "TableMaintenanceSettings"]

_STRICT = ConfigDict(extra="forbid", frozen=True)


class StorageSettings(BaseModel):
    """An S3-compatible object store of a lake.

    Missing keys are read from the environment, as in every tool of AWS.
    """

    model_config = _STRICT

    endpoint: str | None = Field(
        default=None, description="Host and port of the store; that of AWS by default."
    )
    region: str | None = Field(default=None, description="The region of the store.")
    key_id: str | None = Field(default=None, description="The id of the access key.")
    secret_file: Path | None = Field(
        default=None, description="The file that contains the secret of the access key."
    )
    secret_env: str | None = Field(
        default=None,
        description="The variable of the environment that contains the secret instead.",
    )
    session_token_file: Path | None = Field(
        default=None, description="The file that contains a session token, with temporary keys."
    )
    session_token_env: str | None = Field(
        default=None, description="The variable that contains the session token instead."
    )
    url_style: Literal["path", "vhost"] | None = Field(
        default=None, description="Where the name of the bucket stands in a URL."
    )
    use_ssl: bool = Field(default=True, description="Whether the store is reached by HTTPS.")
    scope: str = Field(
        default="",
        description="The beginning of the paths that this store is for, such as `s3://sales/`; all "
        "paths by default. The longest that fits is used.",
    )

    @model_validator(mode="after")
    def _check_key(self) -> Self:
        if self.secret_file is not None and self.secret_env is not None:
            raise ValueError("give one of secret_file and secret_env, not both")
        if self.session_token_file is not None and self.session_token_env is not None:
            raise ValueError("give one of session_token_file and session_token_env, not both")
        has_secret = self.secret_file is not None or self.secret_env is not None
        if has_secret != (self.key_id is not None):
            raise ValueError("a key needs both key_id and one of secret_file and secret_env")
        return self


class TableMaintenanceSettings(BaseModel):
    """Thresholds of one table."""

    model_config = _STRICT

    flush_rows: int = Field(
        default=1000, ge=1, description="Flush a table with so many inlined rows and deletes."
    )
    merge_files: int = Field(
        default=8, ge=2, description="Merge files of a table from so many small ones."
    )
    rewrite_threshold: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="Rewrite files of which this share of rows is deleted; by default the option "
        "`rewrite_delete_threshold` of the table, or 0.95.",
    )
    target_file_size: int | None = Field(
        default=None,
        gt=0,
        description="The bytes of new files; by default the option of the table, or 512 MiB.",
    )


class MaintenanceSettings(TableMaintenanceSettings):
    """When the server maintains its lakes. Of several servers, one at a time does it.

    A section `[lake.maintenance]` replaces this one for the `[[lake]]` above it. Sections such as
    `[maintenance.tables."main.events"]` have the first four keys for one table.
    """

    enabled: bool = Field(default=False, description="Whether the server maintains its lakes.")
    every: float = Field(
        default=60.0, gt=0, description="Seconds between two looks at whether a lake has changed."
    )
    expire_older_than: str | None = Field(
        default=None,
        description="Expire older snapshots, such as `7 days`; by default the option of the lake, "
        "or never.",
    )
    retain_last: int | None = Field(
        default=None, ge=1, description="How many of the newest snapshots stay in any case."
    )
    delete_older_than: str | None = Field(
        default=None,
        description="How long files stay after no snapshot needs them; by default the option of "
        "the lake, or `2 days`.",
    )
    orphans_older_than: str | None = Field(
        default=None, description="Remove orphans of this age, at least `1 day`; by default never."
    )
    tables: dict[str, TableMaintenanceSettings] = Field(
        default={}, description="Other thresholds for some tables, by `schema.name`."
    )

    @property
    def policy(self) -> MaintenancePolicy:
        """The thresholds."""
        own = self.model_dump(exclude={"enabled", "every", "tables"})
        tables = {
            name: MaintenancePolicy(**table.model_dump()) for name, table in self.tables.items()
        }
        return MaintenancePolicy(**own, tables=tables)


class LakeSettings(BaseModel):
    """One catalog to serve."""

    model_config = _STRICT

    uri: str = Field(
        repr=False,
        description="What to serve: a lake (`ducklake:…`, `postgresql://…`, a `.ducklake` or "
        "`.sqlite` file), `memory:`, or `package.module:name`. `@file` reads it from a file.",
    )
    name: str = Field(
        default="",
        description="The name that it is attached by. By default that of its file, database or "
        "object; a catalog that stands alone without a name answers to every name.",
    )
    main_as: str | None = Field(
        default=None,
        description="What the schema `main` is called, which DuckDB's client cannot address; "
        "`public` by default.",
    )
    data_path: str | None = Field(
        default=None,
        description="Where the files of the lake are, if not at the path in its catalog.",
    )
    confine: bool = Field(
        default=False,
        description="Read, write and delete nothing outside of the data path, whatever the "
        "catalog database names. Give `data_path` as well if its writers are not trusted: they "
        "could change the path in the catalog.",
    )
    metadata_schema: str | None = Field(
        default=None, description="The database schema of the lake's own tables."
    )
    database_timeout: float = Field(
        default=60.0, gt=0, description="Seconds to wait for an answer of the catalog database."
    )
    direct_reads: bool = Field(
        default=False,
        description="Let clients that can reach the storage read the Parquet files of unchanged "
        "tables themselves.",
    )
    spark_sql: bool = Field(
        default=False,
        description="Add the function `spark_sql(query)`, which runs queries of Spark SQL over the "
        "tables and views that the caller may read.",
    )
    writable: bool = Field(
        default=False,
        description="Let clients change the lake: rows, tables, views and options.",
    )
    explicit_transactions: bool = Field(
        default=False,
        description="Stage the writes of a client until it calls `lakeport.commit`; they vanish "
        "with `lakeport.rollback`, or when the client is idle for too long.",
    )
    add_files_from: list[str] = Field(
        default=[],
        description="Folders from which clients may add files to the lake with "
        "`lakeport.add_files`, besides its data path. The lake owns added files.",
    )
    small_scan_bytes: int = Field(
        default=SMALL_SCAN_BYTES,
        ge=0,
        description="Scans that read less are read by the server itself, the others by Spark. With "
        "0, the server reads only rows of the catalog database.",
    )
    statistics_rows: int = Field(
        default=STATISTICS_ROWS,
        ge=0,
        description="Tables with fewer rows for each of their columns offer no statistics, which "
        "DuckDB would request for every column of every statement.",
    )
    storage: list[StorageSettings] = Field(
        default=[],
        description="The object stores of the lake's files, each a section `[[lake.storage]]`.",
    )
    maintenance: MaintenanceSettings | None = Field(
        default=None,
        description="How this lake is maintained, in a section `[lake.maintenance]`; by default as "
        "`[maintenance]` describes.",
    )
