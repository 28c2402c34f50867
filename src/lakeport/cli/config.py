"""The configuration of `lakeport serve`: one model, from a TOML file, the environment and flags.

A flag wins over the environment, the environment over the file. The reference page of the
documentation is generated from this model by `lakeport.cli.config_reference`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from lakeport.auth import MIN_TOKEN_LENGTH
from lakeport.catalog import STATISTICS_ROWS
from lakeport.cli.access.settings import CertificateSettings, IssuerSettings
from lakeport.ducklake import SMALL_SCAN_BYTES
from lakeport.ducklake.maintenance import MaintenancePolicy
from lakeport.errors import DefinitionError, first_line

__all__ = [
    "LakeSettings",
    "LogSettings",
    "MaintenanceSettings",
    "ServerSettings",
    "Settings",
    "SparkSettings",
    "StorageSettings",
    "TableMaintenanceSettings",
    "TokenSettings",
    "check_token",
    "load_settings",
]

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
    small_scan_bytes: int = Field(
        default=SMALL_SCAN_BYTES,
        ge=0,
        description="Scans that read less are read by the server itself, the others by Spark. With "
        "0, the server reads only rows of the catalog database.",
    )
    statistics_rows: int = Field(
        default=STATISTICS_ROWS,
        ge=0,
        description="Tables with fewer rows offer no statistics of their columns, which DuckDB "
        "would request for every statement.",
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


class ServerSettings(BaseModel):
    """How the server listens, and who may connect."""

    model_config = _STRICT

    listen: str = Field(
        default="127.0.0.1:8815",
        description="Host and port to listen on, also as `grpc://host:port` or, with a "
        "certificate, `grpc+tls://host:port`; port 0 picks a free one.",
    )
    advertise: str | None = Field(
        default=None,
        description="The location that plain Flight clients get, if not the address itself.",
    )
    token_file: Path | None = Field(
        default=None,
        description="A file with one `token identity` pair a line; `#` starts a comment. A token "
        f"has at least {MIN_TOKEN_LENGTH} characters. Without the file, every client may call.",
    )
    tls_cert: Path | None = Field(default=None, description="The server's certificate chain (PEM).")
    tls_key: Path | None = Field(
        default=None, description="The private key of the certificate (PEM)."
    )
    tls_client_ca: Path | None = Field(
        default=None, description="Accept only clients with a certificate of this authority (PEM)."
    )
    drain: float = Field(
        default=30.0,
        ge=0,
        description="Seconds that running calls may take to finish after SIGTERM.",
    )
    metrics_listen: str | None = Field(
        default=None, description="Host and port for `/healthz` and `/metrics`; none by default."
    )
    console_listen: str | None = Field(
        default=None, description="Host and port for the console in the browser; none by default."
    )
    batch_rows: int = Field(
        default=64 * 1024, gt=0, description="The most rows in a batch of a scan."
    )
    max_message_size: int = Field(
        default=64 * 1024 * 1024, gt=0, description="The most bytes in a batch, either way."
    )
    compression: Literal["lz4", "zstd", "auto"] | None = Field(
        default=None,
        description="Compress batches: `lz4` or `zstd`; worth it on slow networks only. `auto` is "
        "`lz4`, except to clients on this machine.",
    )
    transaction_timeout: float = Field(
        default=600.0,
        gt=0,
        description="Seconds without a call after which a transaction is rolled back.",
    )
    stream_timeout: float = Field(
        default=900.0,
        gt=0,
        description="Seconds after which a stream ends whose client neither reads nor writes.",
    )
    max_connections: int = Field(
        default=1000,
        gt=0,
        description="How many connections may be open; beyond, those without calls are closed.",
    )


class TokenSettings(BaseModel):
    """A token, given by one of `token`, `file` and `environment`, and the lakes it may read."""

    model_config = _STRICT

    identity: str = Field(
        min_length=1, description="The identity of the token's owner, which is logged."
    )
    token: str | None = Field(
        default=None,
        repr=False,
        description=f"The token itself, of at least {MIN_TOKEN_LENGTH} characters.",
    )
    file: Path | None = Field(default=None, description="A file that holds the token.")
    environment: str | None = Field(
        default=None, description="A variable of the environment that holds the token."
    )
    lakes: list[str] = Field(
        description='The names of the lakes that it may read; `["*"]` for all. The others are '
        "neither listed nor named to its callers."
    )
    groups: list[str] = Field(default=[], description="The groups of the identity, for policies.")
    attributes: dict[str, str] = Field(
        default={}, description="The attributes of the identity, for policies."
    )

    @field_validator("token")
    @classmethod
    def _check_token(cls, token: str | None) -> str | None:
        return None if token is None else check_token(token)

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        if sum(value is not None for value in (self.token, self.file, self.environment)) != 1:
            raise ValueError("give one of token, file and environment")
        return self


class SparkSettings(BaseModel):
    """Where lakes are read."""

    model_config = _STRICT

    master: str | None = Field(
        default=None,
        description="The Spark master: `local[4]`, `spark://host:7077`, `k8s://…`, `sc://…`. By "
        "default what `SPARK_REMOTE` or `MASTER` name, else all cores of this machine.",
    )
    conf: dict[str, str | int | float | bool] = Field(
        default={}, description='Settings of Spark, such as `"spark.executor.memory" = "4g"`.'
    )
    warm_up: bool = Field(
        default=True,
        description="Run a few small queries when Spark has started, so that the first ones of "
        "clients are quick.",
    )


class LogSettings(BaseModel):
    """What is written to standard error."""

    model_config = _STRICT

    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        default="INFO", description="The least important messages to write."
    )
    format: Literal["text", "json"] = Field(
        default="text", description="Lines for people, or one JSON object a line."
    )


class Settings(BaseSettings):
    """All settings of `lakeport serve`."""

    model_config = SettingsConfigDict(
        extra="forbid",
        frozen=True,
        env_prefix="LAKEPORT_",
        env_nested_delimiter="__",
        nested_model_default_partial_update=True,
    )

    lake: list[LakeSettings] = Field(
        default=[], description="What to serve, besides the command line."
    )
    token: list[TokenSettings] = Field(
        default=[], description="The tokens of callers, and the lakes of each."
    )
    issuer: list[IssuerSettings] = Field(
        default=[], description="The issuers of JSON Web Tokens that are accepted."
    )
    certificate: list[CertificateSettings] = Field(
        default=[], description="The users of client certificates."
    )
    server: ServerSettings = ServerSettings()
    maintenance: MaintenanceSettings = MaintenanceSettings()
    spark: SparkSettings = SparkSettings()
    log: LogSettings = LogSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources in order of precedence: flags, the environment, the file."""
        file = settings_cls.model_config.get("toml_file")
        environment = _Environment(settings_cls)
        return init_settings, environment, TomlConfigSettingsSource(settings_cls, file)


class _Environment(EnvSettingsSource):
    """The variables of the environment without LAKEPORT_TOKEN, the token of a client."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        if field_name == "token":
            return None, field_name, False
        return super().get_field_value(field, field_name)


def load_settings(file: Path | None = None, **flags: dict[str, Any]) -> Settings:
    """Return the settings of a file, the environment and flags; flags that are None are ignored."""
    if file is not None and not file.is_file():
        raise DefinitionError(f"there is no configuration file {file}")

    class Loaded(Settings):
        model_config = SettingsConfigDict(toml_file=file)

    explicit: dict[str, Any] = {
        section: {key: value for key, value in values.items() if value is not None}
        for section, values in flags.items()
    }
    try:
        return Loaded(**explicit)
    except ValidationError as error:
        raise DefinitionError(f"the configuration is wrong: {_explained(error)}") from None
    except (SettingsError, ValueError) as error:
        # The first line of a parse error names the line, and never a value.
        where = "the environment" if isinstance(error, SettingsError) else str(file)
        reason = first_line(error)
        raise DefinitionError(f"{where} cannot be read: {reason}") from None


def check_token(token: str) -> str:
    """Return a token of the configuration; raise ValueError if it is too short."""
    if len(token) < MIN_TOKEN_LENGTH:
        raise ValueError(f"a token needs at least {MIN_TOKEN_LENGTH} characters")
    return token


def _explained(error: ValidationError) -> str:
    """Return all errors with their keys, without values, which may be secrets."""
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(f"{_key(fault['loc'])}: {_reason(fault)}" for fault in faults)


def _key(location: tuple[int | str, ...]) -> str:
    return ".".join(str(part + 1) if isinstance(part, int) else part for part in location)


def _reason(fault: Any) -> str:
    return "there is no such key" if fault["type"] == "extra_forbidden" else str(fault["msg"])
