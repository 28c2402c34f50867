"""Who is calling, what they may do, and how the connection is protected."""

from lakeport.auth.authentication import (
    MIN_TOKEN_LENGTH,
    Authenticator,
    AuthSource,
    BearerAuth,
    TokenTable,
    authenticator_of,
    bearer_token,
    identify,
)
from lakeport.auth.authorization import Access, Authorizer, Operation
from lakeport.auth.tls import LoadedTls, TlsConfig

__all__ = [
    "MIN_TOKEN_LENGTH",
    "Access",
    "AuthSource",
    "Authenticator",
    "Authorizer",
    "BearerAuth",
    "LoadedTls",
    "Operation",
    "TlsConfig",
    "TokenTable",
    "authenticator_of",
    "bearer_token",
    "identify",
]
