"""The reference page of the configuration, generated from its model.

`python -m lakeport.cli.config_reference > docs/reference/configuration.md` writes it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from inspect import cleandoc
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from lakeport.cli.access.settings import (
    AuditSettings,
    CertificateSettings,
    IssuerSettings,
    LimitSettings,
    PolicySettings,
)
from lakeport.cli.config import (
    LakeSettings,
    LogSettings,
    MaintenanceSettings,
    ServerSettings,
    SparkSettings,
    StorageSettings,
    TokenSettings,
)

__all__ = ["reference"]

_HEAD = """# Configuration

All settings of `lakeport serve`, with their types and defaults. Generated from the model by
`python -m lakeport.cli.config_reference`.
[The command line](../guides/command-line.md) describes the commands.

`lakeport serve --config lakeport.toml` reads a file like this:

```toml
[[lake]]
name = "sales"
uri = "ducklake:postgres:dbname=lake host=db"

[[lake]]
uri = "@/run/secrets/archive-lake"   # the location is in that file

[[lake.storage]]                     # of the lake above it
endpoint = "minio:9000"
region = "eu-west-1"
key_id = "lakeport"
secret_file = "/run/secrets/minio"   # or secret_env = "MINIO_SECRET"

[[token]]
identity = "ada"
file = "/run/secrets/token-of-ada"
lakes = ["sales"]

[server]
listen = "0.0.0.0:8815"
token_file = "/run/secrets/tokens"
metrics_listen = "127.0.0.1:9815"

[maintenance]
enabled = true
expire_older_than = "7 days"

[maintenance.tables."main.events"]   # other thresholds for one table
merge_files = 50

[spark]
master = "spark://spark:7077"
conf = { "spark.executor.memory" = "4g" }

[log]
format = "json"
```

A flag overrides a variable of the environment. A variable overrides the file. An unknown key is an
error.

Secrets are never arguments of a command. Tokens and keys are in files. A location with a password
is in a file or in the environment. The secret of an object store is in the file or the variable
that the configuration names. Secrets are never printed.
"""

_SECTIONS: tuple[tuple[str, str, type[BaseModel]], ...] = (
    ("[[lake]]", "", LakeSettings),
    ("[[lake.storage]]", "", StorageSettings),
    ("[[token]]", "", TokenSettings),
    ("[[issuer]]", "", IssuerSettings),
    ("[[certificate]]", "", CertificateSettings),
    ("[[policy]]", "", PolicySettings),
    ("[[limit]]", "", LimitSettings),
    ("[audit]", "LAKEPORT_AUDIT__", AuditSettings),
    ("[server]", "LAKEPORT_SERVER__", ServerSettings),
    ("[maintenance]", "LAKEPORT_MAINTENANCE__", MaintenanceSettings),
    ("[spark]", "LAKEPORT_SPARK__", SparkSettings),
    ("[log]", "LAKEPORT_LOG__", LogSettings),
)

_REPEATED: Mapping[str, str] = {
    "[[lake]]": "Repeated for every catalog. In the environment: `LAKEPORT_LAKE`, a JSON list of "
    "objects.",
    "[[lake.storage]]": "Repeated for every store of the `[[lake]]` above it. SIGHUP reads the "
    "secrets again.",
    "[[token]]": "Repeated for every token. Without tokens, issuers and certificates, every client "
    "may call.",
    "[[issuer]]": "Repeated for every issuer. SIGHUP reads them again.",
    "[[policy]]": "Repeated for every policy. Without any, callers may do everything. With the "
    "first one, callers may do only what a policy allows: see "
    "[who may see what](../guides/policies.md). SIGHUP reads them again.",
    "[[limit]]": "Repeated for every limit. A refusal is RESOURCE_EXHAUSTED and names the limit.",
    "[[certificate]]": "Repeated for every certificate. A call with a bearer token is that of the "
    "token's user, whatever the certificate is.",
}


def reference() -> str:
    """Return the page."""
    return "\n".join([_HEAD, *(_section(*section) for section in _SECTIONS)])


def _section(title: str, prefix: str, model: type[BaseModel]) -> str:
    lines = [f"## `{title}`", "", cleandoc(model.__doc__ or ""), ""]
    if prefix:
        lines += ["| Key | Variable | Type | Default | |", "|---|---|---|---|---|"]
    else:
        lines += [_REPEATED[title], "", "| Key | Type | Default | |", "|---|---|---|---|"]
    for name, field in model.model_fields.items():
        variable = f" `{prefix}{name.upper()}` |" if prefix else ""
        lines.append(
            f"| `{name}` |{variable} {_type(field.annotation)} | {_default(field)} "
            f"| {field.description} |"
        )
    return "\n".join([*lines, ""])


def _type(annotation: Any) -> str:
    options = [option for option in get_args(annotation) if option is not type(None)]
    if options and all(isinstance(option, str) for option in options):
        return ", ".join(f"`{option}`" for option in options)
    name = getattr(annotation, "__name__", "")
    if name in ("list", "tuple", "set", "frozenset"):
        return _list_type(options[0])
    if name == "dict" or (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
        return "table"
    if options:
        return " or ".join(dict.fromkeys(_type(option) for option in options))
    return {"str": "text", "int": "number", "float": "number", "bool": "true or false"}.get(
        name, name.lower()
    )


def _list_type(element: Any) -> str:
    if isinstance(element, type) and issubclass(element, BaseModel):
        return "sections"
    return "list of texts" if element is str else f"list of {_type(element)}"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    if field.default in (None, "", {}, []) or isinstance(field.default, BaseModel):
        return "none"
    if isinstance(field.default, bool):
        return str(field.default).lower()
    return f"`{field.default}`"


if __name__ == "__main__":
    print(reference(), end="")  # noqa: T201
