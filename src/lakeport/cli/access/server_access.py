"""Who may call a server and what they may do, from its configuration; replaced by a reload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lakeport.auth import (
    UNLIMITED,
    AccessRequest,
    Authenticator,
    CallerLimits,
    CertificateAuth,
    ClaimMapping,
    Identity,
    JwtAuth,
    KeySet,
    LimitRules,
    Operation,
    Policies,
    Restriction,
    SeveralAuth,
    TokenTable,
    Who,
)
from lakeport.cli.access.policies import policies_of, who_of
from lakeport.cli.access.settings import CertificateSettings, IssuerSettings, LimitSettings
from lakeport.cli.access.tokens import Tokens
from lakeport.cli.config import LakeSettings, Settings
from lakeport.errors import DefinitionError, UnauthenticatedError, UnavailableError
from lakeport.observability import AuditTrail

__all__ = ["AccessRules", "ServerAccess"]


@dataclass(frozen=True, slots=True)
class AccessRules:
    """The callers of a configuration, and what they may do."""

    tokens: Tokens
    authenticator: Authenticator | None
    """Accepts tokens and JSON Web Tokens; None if the configuration has neither."""
    certificates: CertificateAuth | None
    policies: Policies | None = None
    """What callers may do and see; None if everything."""
    limits: LimitRules | None = None
    """What callers may use at once; None if everything."""

    @classmethod
    def of(
        cls,
        settings: Settings,
        served: Mapping[str, LakeSettings],
        *,
        file: Path | None = None,
    ) -> AccessRules:
        """Return the rules of the settings; `served` are the catalogs by name.

        `file` is where the settings are from, for messages about policies.
        """
        tokens = Tokens.of(settings, served)
        authenticators: list[Authenticator] = [_issuer(entry) for entry in settings.issuer]
        if tokens.identities:
            authenticators.append(TokenTable(tokens.identities))
        return cls(
            tokens,
            SeveralAuth(authenticators) if authenticators else None,
            _certificates(settings.certificate),
            policies_of(settings.policy, served, file),
            _limits(settings.limit),
        )

    @property
    def requires_identity(self) -> bool:
        """Whether every call needs a token or a certificate of a user."""
        return self.authenticator is not None or self.certificates is not None

    @property
    def are_checked(self) -> bool:
        """Whether what callers may do differs from caller to caller."""
        return bool(self.tokens.lakes) or self.policies is not None

    def allow(self, access: AccessRequest) -> bool:
        """Return whether a caller may do something."""
        has_token = access.caller.method not in ("jwt", "certificate")
        is_checked = has_token and bool(self.tokens.identities)
        if is_checked and not self.tokens.allows(access.identity, access.catalog):
            return False
        return self.policies is None or self.policies(access)


class ServerAccess:
    """Authenticates and authorises by rules that may be replaced while the server runs."""

    def __init__(self, rules: AccessRules, *, required_trail: AuditTrail | None = None) -> None:
        self._trail = required_trail
        # One reference, replaced as a whole, so that a call uses either the old or the new rules.
        self._rules = rules

    @property
    def rules(self) -> AccessRules:
        """The present rules."""
        return self._rules

    @property
    def requires_trail(self) -> bool:
        """Whether changes are refused while the audit trail cannot be written."""
        return self._trail is not None

    def replace(self, rules: AccessRules) -> None:
        """Use these rules from now on."""
        self._rules = rules

    def check(self, rules: AccessRules) -> None:
        """Raise DefinitionError if rules need a server that is started in another way."""
        old = self._rules
        if not old.requires_identity and rules.requires_identity:
            raise DefinitionError("the server runs without tokens: restart it to require them")
        if old.requires_identity and not rules.requires_identity:
            raise DefinitionError("restart the server to go without tokens")
        if rules.are_checked and not old.are_checked:
            raise DefinitionError("restart the server to begin with [[token]] or [[policy]]")
        if rules.policies is None and old.policies is not None:
            # An empty file after a mistake must not open everything.
            raise DefinitionError("restart the server to go without [[policy]]")
        if (rules.certificates is None) != (old.certificates is None):
            raise DefinitionError("restart the server to begin or end with [[certificate]]")
        if (rules.authenticator is None) != (old.authenticator is None):
            raise DefinitionError("restart the server to begin or end with tokens")

    def authenticate(self, token: str) -> str | Identity:
        """Return the identity of a token."""
        authenticator = self._rules.authenticator
        if authenticator is None:
            raise UnauthenticatedError("the bearer token is not valid")
        return authenticator.authenticate(token)

    def authenticate_subject(self, subject: str) -> Identity:
        """Return the identity of a certificate's subject."""
        certificates = self._rules.certificates
        if certificates is None:
            raise UnauthenticatedError("the certificate of the client belongs to no user")
        return certificates.authenticate_subject(subject)

    def __call__(self, access: AccessRequest) -> bool:
        """Return whether the caller may do something."""
        is_change = access.operation in (Operation.WRITE, Operation.ALTER)
        if is_change and self._trail is not None and self._trail.is_failing:
            raise UnavailableError(
                "changes are refused because the audit trail of the server cannot be written"
            )
        return self._rules.allow(access)

    def callers(self) -> list[Identity]:
        """Return the users of tokens, in the order of their names."""
        known = self._rules.tokens.identities.values()
        return sorted({one.user: one for one in known}.values(), key=lambda one: one.user)

    def restriction(
        self, caller: Identity, catalog: str, schema: str, name: str, verb: str = "select"
    ) -> Restriction | None:
        """Return what the caller sees of a table; None if all of it."""
        policies = self._rules.policies
        if policies is None:
            return None
        return policies.restriction(caller, catalog, schema, name, verb)


def _issuer(settings: IssuerSettings) -> JwtAuth:
    if settings.jwks_file is not None:
        keys = KeySet.of_file(settings.jwks_file, refresh=settings.refresh)
        try:
            keys.check()
        except DefinitionError:
            raise DefinitionError(
                f"issuer {settings.issuer!r}: {settings.jwks_file} cannot be read, or has no key "
                "that tokens can be verified with"
            ) from None
    elif settings.jwks_url is not None:
        keys = KeySet.of_url(settings.jwks_url, refresh=settings.refresh)
    else:
        keys = KeySet.of_issuer(settings.issuer, refresh=settings.refresh)
    return JwtAuth(
        settings.issuer,
        audience=settings.audience,
        keys=keys,
        algorithms=settings.algorithms,
        leeway=settings.leeway,
        claims=ClaimMapping(
            settings.user_claim, settings.groups_claim, settings.attributes, settings.prefix
        ),
    )


def _certificates(entries: Sequence[CertificateSettings]) -> CertificateAuth | None:
    if not entries:
        return None
    subjects: dict[str, Identity] = {}
    for entry in entries:
        if entry.subject in subjects:
            raise DefinitionError(f"certificate {entry.subject!r} is given twice")
        if entry.subject == "*" and entry.user:
            raise DefinitionError("certificate '*' cannot have a user: every subject is its own")
        subjects[entry.subject] = Identity(
            entry.user or entry.subject, frozenset(entry.groups), entry.attributes
        )
    return CertificateAuth(subjects)


def _limits(entries: Sequence[LimitSettings]) -> LimitRules | None:
    if not entries:
        return None
    each: list[tuple[Who, CallerLimits]] = []
    together: CallerLimits | None = None
    for number, entry in enumerate(entries, 1):
        limits = CallerLimits(**entry.model_dump(exclude={"who"}))
        if entry.who != "together":
            each.append((who_of(entry.who, f"limit {number}"), limits))
        elif together is not None:
            raise DefinitionError(f"limit {number}: the limits of all together are given twice")
        else:
            together = limits
    return LimitRules(tuple(each), together or UNLIMITED)
