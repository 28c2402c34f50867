"""The sections of the configuration about callers: issuers, certificates, policies, limits."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

__all__ = [
    "AuditSettings",
    "CertificateSettings",
    "ColumnSettings",
    "IssuerSettings",
    "LimitSettings",
    "PolicySettings",
    "WhoSettings",
]

_STRICT = ConfigDict(extra="forbid", frozen=True)

Algorithm = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"
]


class IssuerSettings(BaseModel):
    """An issuer of JSON Web Tokens: an identity provider, or the keys of `lakeport token`."""

    model_config = _STRICT

    issuer: str = Field(
        min_length=1,
        description="The claim `iss` of its tokens. Without `jwks_url` and `jwks_file` it is a URL "
        "whose `/.well-known/openid-configuration` names the keys (OpenID Connect discovery).",
    )
    audience: list[str] = Field(
        min_length=1, description="The claim `aud` of a token must be, or contain, one of these."
    )
    jwks_url: str | None = Field(
        default=None, description="Where the public keys are, by `https://`."
    )
    jwks_file: Path | None = Field(default=None, description="A file with the public keys.")
    algorithms: list[Algorithm] = Field(
        default=["RS256", "ES256", "EdDSA"],
        description="The signatures that are accepted; `none` and HMAC never are.",
    )
    leeway: float = Field(
        default=30.0, ge=0, description="By how many seconds the clocks may differ."
    )
    refresh: float = Field(
        default=3600.0,
        gt=0,
        description="After how many seconds the keys are read again. They are also read again when "
        "a token names an unknown key, at most every 30 seconds.",
    )
    user_claim: str = Field(
        default="sub",
        description="The claim of the user's name; with dots for a claim inside another.",
    )
    groups_claim: str = Field(default="groups", description="The claim of the user's groups.")
    attributes: dict[str, str] = Field(
        default={}, description='The claim of each attribute: `{ region = "office.region" }`.'
    )
    prefix: str = Field(
        default="",
        description="Is put before users and groups, such as `corp/`, so that two issuers cannot "
        "name the same ones.",
    )

    @model_validator(mode="after")
    def _check_keys(self) -> Self:
        if self.jwks_url is not None and self.jwks_file is not None:
            raise ValueError("give one of jwks_url and jwks_file, not both")
        return self


class CertificateSettings(BaseModel):
    """A client certificate and the user whose it is, with `tls_client_ca`."""

    model_config = _STRICT

    subject: str = Field(
        min_length=1,
        description="The first subject alternative name of the certificate; its common name if it "
        "has none. `*` stands for every other subject, which is then the user itself.",
    )
    user: str = Field(default="", description="The user; the subject by default.")
    groups: list[str] = Field(default=[], description="The groups of the user.")
    attributes: dict[str, str] = Field(default={}, description="The attributes of the user.")


class WhoSettings(BaseModel):
    """Callers: those who have one of the users, one of the groups and all of the attributes."""

    model_config = _STRICT

    users: list[str] = Field(default=[], description="Names of users.")
    groups: list[str] = Field(default=[], description="Names of groups.")
    attributes: dict[str, str] = Field(default={}, description="Attributes and their texts.")


class ColumnSettings(BaseModel):
    """The columns that callers do not see as they are."""

    model_config = _STRICT

    hide: list[str] = Field(default=[], description="Columns that are not there.")
    mask: dict[str, str] = Field(
        default={}, description="SQL of what is there instead of the values of a column."
    )


class PolicySettings(BaseModel):
    """What some callers may do with some tables, and what they see of them."""

    model_config = _STRICT

    who: Literal["everyone"] | WhoSettings = Field(
        description='`"everyone"`, or a table with `users`, `groups` and `attributes`: a caller '
        "must have one of the users, one of the groups and all attributes, as far as given."
    )
    on: str = Field(
        description="The tables, as `lake.schema.table` in their published names; each part may be "
        "a pattern with `*`, `?` and `[…]`, or in double quotes."
    )
    allow: list[
        Literal[
            "select", "insert", "update", "delete", "alter", "create", "drop",
            "maintain", "admin", "spark_sql",
        ]
    ] = Field(min_length=1, description="What they may do.")  # fmt: skip
    rows: str | None = Field(
        default=None,
        description="A condition in DuckDB SQL: the rows that are there for them. It may use "
        "`user()`, `user_attribute('…')`, `user_groups()` and `in_group('…')`.",
    )
    columns: ColumnSettings = Field(
        default=ColumnSettings(),
        description='Columns to hide and to mask: `{ hide = ["card"], mask = { email = "…" } }`. '
        "A mask is DuckDB SQL of the column's type.",
    )


class LimitSettings(BaseModel):
    """What a caller, or all callers together, may use at once."""

    model_config = _STRICT

    who: Literal["everyone", "together"] | WhoSettings = Field(
        description='Whose limits they are: `"everyone"` or a table as in `[[policy]]` for each '
        'single caller, where the first that fits holds; `"together"` for all callers.'
    )
    scans: int | None = Field(
        default=None, gt=0, description="Scans that run at once; more wait, and callers take turns."
    )
    queued_scans: int | None = Field(
        default=None, ge=0, description="Scans that wait; more are refused."
    )
    rows_per_scan: int | None = Field(default=None, gt=0, description="The most rows of a scan.")
    bytes_per_scan: int | None = Field(
        default=None, gt=0, description="The most bytes of a scan, as Arrow."
    )
    scan_seconds: float | None = Field(
        default=None, gt=0, description="The longest time of a scan, checked at each batch."
    )
    calls_per_second: float | None = Field(
        default=None,
        gt=0,
        description="Calls a second on average; as many may come at once as in two seconds.",
    )
    connections: int | None = Field(
        default=None,
        gt=0,
        description="Open connections with at least one call; calls of more are refused. On Linux.",
    )
    transactions: int | None = Field(
        default=None, gt=0, description="Open transactions of several statements."
    )


class AuditSettings(BaseModel):
    """The audit trail: one JSON object for each attach, statement, scan, write and refusal."""

    model_config = _STRICT

    file: str | None = Field(
        default=None, description="The file to append to; `-` for standard output."
    )
    table: str | None = Field(
        default=None,
        description="A table for the events, as `lake.schema.table`: one of the served lakes, and "
        "the names of schema and table in it. It is created if it is missing.",
    )
    table_seconds: float = Field(
        default=5.0,
        gt=0,
        description="How long events wait for others; those that wait are one snapshot.",
    )
    required: bool = Field(
        default=False, description="Refuse changes while the trail cannot be written."
    )
