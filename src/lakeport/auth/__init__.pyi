from .authentication import (
    MIN_TOKEN_LENGTH,
    Authenticator,
    AuthSource,
    BearerAuth,
    CertificateAuth,
    SeveralAuth,
    SubjectAuthenticator,
    TokenTable,
    authenticate,
    authenticator_of,
    bearer_token,
)
from .authorization import AccessRequest, Authorizer
from .caller_limits import UNLIMITED, CallerLimits, LimitRules
from .identity import ANONYMOUS, Identity, identity_of
from .json_web_tokens import ClaimMapping, JwtAuth
from .key_sets import ALGORITHMS, KeySet, check_key_url
from .operations import MayDo, Operation, allow_everything
from .policies import PERMISSIONS, Policies, Policy, Who, grant
from .policy_sql import PolicyExpression
from .restrictions import (
    NO_OTHERS,
    Grant,
    KnowsCallers,
    OtherCallers,
    RestrictingAuthorizer,
    Restriction,
    RestrictionOf,
    no_restriction,
    united,
)
from .signing import SIGNING_ALGORITHM, SigningKey
from .tls import LoadedTls, TlsConfig

__all__ = [
    "ALGORITHMS",
    "ANONYMOUS",
    "MIN_TOKEN_LENGTH",
    "NO_OTHERS",
    "PERMISSIONS",
    "SIGNING_ALGORITHM",
    "UNLIMITED",
    "AccessRequest",
    "AuthSource",
    "Authenticator",
    "Authorizer",
    "BearerAuth",
    "CallerLimits",
    "CertificateAuth",
    "ClaimMapping",
    "Grant",
    "Identity",
    "JwtAuth",
    "KeySet",
    "KnowsCallers",
    "LimitRules",
    "LoadedTls",
    "MayDo",
    "Operation",
    "OtherCallers",
    "Policies",
    "Policy",
    "PolicyExpression",
    "RestrictingAuthorizer",
    "Restriction",
    "RestrictionOf",
    "SeveralAuth",
    "SigningKey",
    "SubjectAuthenticator",
    "TlsConfig",
    "TokenTable",
    "Who",
    "allow_everything",
    "authenticate",
    "authenticator_of",
    "bearer_token",
    "check_key_url",
    "grant",
    "identity_of",
    "no_restriction",
    "united",
]
