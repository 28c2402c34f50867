"""Logs on standard error, as text or as JSON, without secrets."""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Iterable
from dataclasses import fields
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, Final

from lakeport.airport.server import CallEnded
from lakeport.auth import MIN_TOKEN_LENGTH
from lakeport.filters.encoders import filter_shape

__all__ = ["CallLog", "log_to_stderr"]

_HIDDEN: Final = "***"

# Patterns that redact secrets in addition to the configured ones.
_PATTERNS: Final = (
    re.compile(r"(?i)(\bbearer\s+)\S+"),
    re.compile(r"(?i)(\b(?:password|passwd|secret|token|auth_token)\s*[=:]\s*)(?:'[^']*'|\S+)"),
    re.compile(r"(://[^/\s:@]*:)[^@\s/]+(?=@)"),
)

# Each pattern matches only texts with one of these words, in lower case.
_PATTERN_WORDS: Final = ("bearer", "passw", "secret", "token", "://")

_OWN_FIELDS: Final = frozenset({*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"})

_CALL_FIELDS: Final = tuple(field.name for field in fields(CallEnded))

_call_values: Final = attrgetter(*_CALL_FIELDS)

_ROW_VERBS: Final = frozenset({"DoGet", "DoExchange"})

_PLAIN: Final = re.compile(r"[\w.:/@+*,\[\]-]+")

_log = logging.getLogger("lakeport.calls")


def log_to_stderr(
    *, level: str = "INFO", as_json: bool = False, secrets: Iterable[str] = ()
) -> None:
    """Write the logs of Lakeport to standard error, as lines of text or of JSON."""
    formatter = _JsonFormatter if as_json else _TextFormatter
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter(tuple(secrets)))
    logger = logging.getLogger("lakeport")
    logger.handlers = [handler]
    logger.propagate = False
    logger.setLevel(level)


class CallLog:
    """An observer that logs a line for every call: its caller, object and result."""

    def call_started(self, verb: str) -> None:
        """Ignore the event: a call is logged when it has ended."""

    def call_ended(self, call: CallEnded) -> None:
        """Log the call; at DEBUG if it succeeded and concerns no table and no rows."""
        is_usual = call.status == "OK" and not call.table and call.verb not in _ROW_VERBS
        level = logging.DEBUG if is_usual else logging.INFO
        if not _log.isEnabledFor(level):
            return
        values = zip(_CALL_FIELDS, _call_values(call), strict=True)
        known = {name: value for name, value in values if value not in ("", None)}
        known["seconds"] = round(call.seconds, 6)
        if call.filter is not None:
            # Without its values, which may be private.
            known["filter"] = filter_shape(call.filter) or "TRUE"
        # Not `_log.log`, which looks for its caller: this method.
        message = ("%s %s", (call.verb, call.status))
        _log.handle(_log.makeRecord(_log.name, level, __file__, 0, *message, None, extra=known))

    def scan_started(self) -> None:
        """Ignore the event: the end of the call is logged."""

    def batch_sent(self, rows: int, size: int) -> None:
        """Ignore the event: rows are counted in the line of the call."""

    def scan_ended(self, *, complete: bool) -> None:
        """Ignore the event: the end of the call is logged."""


class _Formatter(logging.Formatter):
    def __init__(self, secrets: tuple[str, ...]) -> None:
        super().__init__()
        # Longer ones first, because a shorter secret may be the beginning of a longer one.
        ordered = sorted({s for s in secrets if s}, key=len, reverse=True)
        self._secrets = [_secret_pattern(secret) for secret in ordered]
        self._any_secret = re.compile("|".join(secret.pattern for secret in self._secrets))

    def may_hold_secrets(self, text: str) -> bool:
        """Return False if `redacted` returns the text unchanged, as it does for nearly all."""
        folded = text.lower()
        return any(word in folded for word in _PATTERN_WORDS) or (
            bool(self._secrets) and self._any_secret.search(text) is not None
        )

    def redacted(self, text: str) -> str:
        """Return the text without secrets."""
        for secret in self._secrets:
            text = secret.sub(_HIDDEN, text)
        for pattern in _PATTERNS:
            text = pattern.sub(rf"\g<1>{_HIDDEN}", text)
        return text

    def formatException(self, ei: Any) -> str:  # noqa: N802
        """Return a traceback without secrets."""
        return self.redacted(super().formatException(ei))


class _TextFormatter(_Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """Return one line, and a traceback below it."""
        # Values are redacted before they are quoted: a pattern could match the closing quote.
        texts = {key: str(value) for key, value in _extra(record).items()}
        message = record.getMessage()
        if self.may_hold_secrets("\n".join((message, *texts.values()))):
            texts = {key: self.redacted(text) for key, text in texts.items()}
            message = self.redacted(message)
        if all(texts.values()) and _PLAIN.fullmatch("".join(texts.values())):
            words = "".join(f" {key}={text}" for key, text in texts.items())
        else:
            words = "".join(f" {key}={_word(text)}" for key, text in texts.items())
        line = f"{_time(record)} {record.levelname:<7} {message}{words}"
        if record.exc_info:
            line = f"{line}\n{self.formatException(record.exc_info)}"
        return line


class _JsonFormatter(_Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """Return one JSON object."""
        entry: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname,
            "logger": record.name,
            "message": self.redacted(record.getMessage()),
        }
        for key, value in _extra(record).items():
            entry[key] = self.redacted(value) if isinstance(value, str) else value
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=lambda value: self.redacted(str(value)))


def _secret_pattern(secret: str) -> re.Pattern[str]:
    """Return a pattern for a secret; a short one is matched only as a whole word."""
    escaped = re.escape(secret)
    if len(secret) >= MIN_TOKEN_LENGTH:
        return re.compile(escaped)
    # A boundary only beside a word character: a password may begin or end with another.
    before = r"(?<!\w)" if re.match(r"\w", secret) else ""
    after = r"(?!\w)" if re.search(r"\w\Z", secret) else ""
    return re.compile(f"{before}{escaped}{after}")


def _word(value: Any) -> str:
    """Return a value, quoted if it has other than plain characters: clients choose some texts."""
    text = str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text)


def _time(record: logging.LogRecord) -> str:
    time = datetime.fromtimestamp(record.created, UTC)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _extra(record: logging.LogRecord) -> dict[str, Any]:
    return {key: value for key, value in vars(record).items() if key not in _OWN_FIELDS}
