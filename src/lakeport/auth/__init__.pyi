from .authentication import (
    MIN_TOKEN_LENGTH,
    Authenticator,
    AuthSource,
    BearerAuth,
    TokenTable,
    authenticate,
    authenticator_of,
    bearer_token,
)
from .authorization import AccessRequest, Authorizer
from .operations import MayDo, Operation, allow_everything
from .tls import LoadedTls, TlsConfig

__all__ = [
    "MIN_TOKEN_LENGTH",
    "AccessRequest",
    "AuthSource",
    "Authenticator",
    "Authorizer",
    "BearerAuth",
    "LoadedTls",
    "MayDo",
    "Operation",
    "TlsConfig",
    "TokenTable",
    "allow_everything",
    "authenticate",
    "authenticator_of",
    "bearer_token",
]
