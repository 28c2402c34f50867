"""Conditions of queries for sources that Spark's planner gives none: a rule of its optimizer.

`SourceFilters.java` is compiled by Janino, the compiler that Spark has for generated code, in the
driver. It finds a filter directly above a source of Lakeport and calls `_Narrowing` here. All
conditions stay in the plan: Spark evaluates them again, so a source only leaves out what
cannot match.
"""

from __future__ import annotations

import hmac
import itertools
import logging
import pickle
import secrets
import threading
from collections import OrderedDict
from collections.abc import Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, runtime_checkable
from weakref import WeakKeyDictionary

from lakeport.ducklake.planning import Planner
from lakeport.errors import PermissionDeniedError
from lakeport.filters import Filter
from lakeport.spark.compat import is_connect
from lakeport.spark.frames.predicates import compared_columns, translate_predicates
from lakeport.types import Column

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["NarrowedSource", "install_rule", "register_tasks"]

_log = logging.getLogger("lakeport.spark")

_CLASS: Final = "SourceFilters"
_SECRET_BYTES: Final = 32
_PREFIX: Final = "lakeport_tasks_"
# A plan of a DataFrame that is older reads all files, as before.
_MOST_PLANNERS: Final = 256
_lock = threading.Lock()
_numbers = itertools.count()
_classes: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
_planners: OrderedDict[str, tuple[Planner, tuple[Column | str, ...]]] = OrderedDict()


@runtime_checkable
class NarrowedSource(Protocol):
    """A data source that can leave out rows."""

    @property
    def compared(self) -> Sequence[Column | str]:
        """The columns that conditions may name."""

    def narrowed(self, filter: Filter) -> Self:
        """Return a copy that need not read rows which cannot pass a filter."""


def install_rule(spark: SparkSession) -> bool:
    """Add the rule to a session, once; return whether it is there."""
    if is_connect(spark):
        return False
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.java_gateway import ensure_callback_server_started

    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001
    jvm: Any = spark._jvm  # noqa: SLF001
    methods: Any = spark._jsparkSession.experimental()  # noqa: SLF001
    try:
        with _lock:
            present = methods.extraOptimizations()
            if any(_is_rule(present.apply(i)) for i in range(present.length())):
                return True
            if jvm in _classes and _classes[jvm] is None:
                return False
            ensure_callback_server_started(gateway)
            rule = _compiled(jvm).getDeclaredConstructor(None).newInstance(None)
            secret = secrets.token_bytes(_SECRET_BYTES)
            rule.setNarrow(_Narrowing(secret), secret)
            getattr(methods, "extraOptimizations_$eq")(present.appended(rule))
    except (Py4JError, OSError, TypeError, AttributeError) as error:
        _log.warning("filters leave out no files of the ducklake source: %s", error)
        return False
    return True


def register_tasks(planner: Planner, columns: Sequence[Column | str]) -> str:
    """Return the name of the column by which the rule passes what tasks may leave out."""
    name = f"{_PREFIX}{next(_numbers)}"
    with _lock:
        _planners[name] = planner, tuple(columns)
        while len(_planners) > _MOST_PLANNERS:
            _planners.popitem(last=False)
    return name


class _Narrowing:
    """Implements `java.util.function.BiFunction` of a source and the predicates above it.

    Any process of this machine can call it by the port of py4j's callback server: a pickled source
    is read only after the secret that the rule has.
    """

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def apply(self, source: Any, predicates: Any) -> Any:
        """Return what replaces the source, in bytes; None if it reads the same."""
        parts = [predicates.apply(i) for i in range(predicates.length())]
        try:
            if isinstance(source, str):
                return _excluded(source, parts)
            return _narrowed(self._checked(source), parts)
        except Exception as error:  # noqa: BLE001 - a query must not fail because it reads too much
            _log.warning("a query reads all files of a table: %s", error)
            return None

    def _checked(self, sent: bytes) -> bytes:
        secret, pickled = sent[:_SECRET_BYTES], sent[_SECRET_BYTES:]
        if not hmac.compare_digest(secret, self._secret):
            raise PermissionDeniedError("a call without the secret of the optimizer rule")
        return pickled

    class Java:
        """The interface, for py4j."""

        implements: Final = ["java.util.function.BiFunction"]


def _excluded(name: str, predicates: Sequence[Any]) -> bytes | None:
    """Return the ids of the files that the tasks of a DataFrame may leave out, pickled."""
    with _lock:
        found = _planners.get(name)
    if found is None:
        return None
    planner, columns = found
    filter = translate_predicates(compared_columns(columns), predicates)
    excluded = planner.excluded_files(filter) if filter is not None else frozenset()
    return pickle.dumps(excluded) if excluded else None


def _narrowed(pickled: bytes, predicates: Sequence[Any]) -> bytes | None:
    """Return a data source, as pickled by Spark's worker, that reads less."""
    source = pickle.loads(pickled)  # noqa: S301 - Spark's worker has made it of our class
    if not isinstance(source, NarrowedSource):
        return None
    filter = translate_predicates(compared_columns(source.compared), predicates)
    return None if filter is None else pickle.dumps(source.narrowed(filter))


def _is_rule(rule: Any) -> bool:
    return str(rule.getClass().getName()) == _CLASS


def _compiled(jvm: Any) -> Any:
    """Return the class of the rule, compiled once for each JVM."""
    if jvm not in _classes:
        # Another version of Spark may have other classes: it is tried once.
        _classes[jvm] = None
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
        compiler.cook(files("lakeport.spark.frames").joinpath(f"{_CLASS}.java").read_text())
        _classes[jvm] = compiler.getClassLoader().loadClass(_CLASS)
    return _classes[jvm]
