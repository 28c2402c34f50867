"""The configuration of `lakeport serve`: one model, from a TOML file, the environment and flags.

A flag wins over the environment, the environment over the file. The reference page of the
documentation is generated from this model by `lakeport.cli.reference`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from lakeport.errors import DefinitionError

__all__ = [
    "LakeSettings",
    "LogSettings",
    "ServerSettings",
    "Settings",
    "SparkSettings",
    "load_settings",
]

_STRICT = ConfigDict(extra="forbid", frozen=True)


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
        default=None, description="Where the files of the lake are, if not where its catalog says."
    )
    metadata_schema: str | None = Field(
        default=None, description="The database schema of the lake's own tables."
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


class ServerSettings(BaseModel):
    """How the server listens and whom it lets in."""

    model_config = _STRICT

    listen: str = Field(
        default="127.0.0.1:8815", description="Host and port to listen on; port 0 picks a free one."
    )
    advertise: str | None = Field(
        default=None,
        description="The location to tell plain Flight clients, if not the address itself.",
    )
    token_file: Path | None = Field(
        default=None,
        description="A file with one `token identity` pair a line; `#` starts a comment. Without "
        "it everybody may call.",
    )
    tls_cert: Path | None = Field(default=None, description="The server's certificate chain (PEM).")
    tls_key: Path | None = Field(
        default=None, description="The private key of the certificate (PEM)."
    )
    tls_client_ca: Path | None = Field(
        default=None, description="Let in only clients with a certificate of this authority (PEM)."
    )
    drain: float = Field(
        default=30.0,
        ge=0,
        description="Seconds that running calls may take to finish after SIGTERM.",
    )
    metrics_listen: str | None = Field(
        default=None, description="Host and port for `/healthz` and `/metrics`; none by default."
    )
    batch_rows: int = Field(
        default=64 * 1024, gt=0, description="The most rows in a batch of a scan."
    )
    max_message_size: int = Field(
        default=64 * 1024 * 1024, gt=0, description="The most bytes in a batch, either way."
    )
    compression: Literal["lz4", "zstd"] | None = Field(
        default=None,
        description="Compress batches: `lz4` or `zstd`; worth it on slow networks only.",
    )
    transaction_timeout: float = Field(
        default=600.0,
        gt=0,
        description="Seconds without a call after which a transaction is rolled back.",
    )


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
    """Everything that `lakeport serve` can be told."""

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
    server: ServerSettings = ServerSettings()
    spark: SparkSettings = SparkSettings()
    log: LogSettings = LogSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags, then the environment, then the file."""
        file = settings_cls.model_config.get("toml_file")
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, file)


def load_settings(file: Path | None = None, **flags: dict[str, Any]) -> Settings:
    """The settings of a file, the environment and flags; flags that are None were not given."""
    if file is not None and not file.is_file():
        raise DefinitionError(f"there is no configuration file {file}")

    class Loaded(Settings):
        model_config = SettingsConfigDict(toml_file=file)

    given: dict[str, Any] = {
        section: {key: value for key, value in values.items() if value is not None}
        for section, values in flags.items()
    }
    try:
        return Loaded(**given)
    except ValidationError as error:
        raise DefinitionError(f"the configuration is wrong: {_explained(error)}") from None
    except (SettingsError, ValueError) as error:
        # The text of a parse error tells the line, and may not tell the value.
        where = "the environment" if isinstance(error, SettingsError) else str(file)
        reason = str(error).partition("\n")[0]
        raise DefinitionError(f"{where} cannot be read: {reason}") from None


def _explained(error: ValidationError) -> str:
    """Every fault with its key; never a value, which may be a secret."""
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(f"{_key(fault['loc'])}: {_reason(fault)}" for fault in faults)


def _key(location: tuple[int | str, ...]) -> str:
    return ".".join(str(part + 1) if isinstance(part, int) else part for part in location)


def _reason(fault: Any) -> str:
    return "there is no such key" if fault["type"] == "extra_forbidden" else str(fault["msg"])
