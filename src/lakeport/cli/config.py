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
from lakeport.cli.access.settings import (
    AuditSettings,
    CertificateSettings,
    IssuerSettings,
    LimitSettings,
    PolicySettings,
)
from lakeport.cli.lake_settings import LakeSettings, MaintenanceSettings, StorageSettings
from lakeport.errors import DefinitionError, first_line

__all__ = [
    "LakeSettings",
    "LogSettings",
    "MaintenanceSettings",
    "ServerSettings",
    "Settings",
    "SparkSettings",
    "StorageSettings",
    "TokenSettings",
    "check_token",
    "load_settings",
]

_STRICT = ConfigDict(extra="forbid", frozen=True)


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
    traces_endpoint: str | None = Field(
        default=None,
        description="The collector that gets traces by OTLP over HTTP, such as "
        "`http://127.0.0.1:4318`; none by default.",
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
    """Where large tables are read and written."""

    model_config = _STRICT

    enabled: bool | None = Field(
        default=None,
        description="Whether Spark is started. Without it the server reads and writes tables of "
        "every size itself. By default it is started if PySpark is installed.",
    )
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
    policy: list[PolicySettings] = Field(
        default=[], description="What callers may do and see; everything without policies."
    )
    limit: list[LimitSettings] = Field(
        default=[], description="What callers may use at once; everything without limits."
    )
    audit: AuditSettings = AuditSettings()
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
