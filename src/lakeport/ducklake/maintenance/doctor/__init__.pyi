from .advice import Advice, TableAdvice, advise
from .diagnosis import diagnose
from .findings import Diagnosis, Finding, Severity, Verdict
from .repair import Repaired, repair

__all__ = [
    "Advice",
    "Diagnosis",
    "Finding",
    "Repaired",
    "Severity",
    "TableAdvice",
    "Verdict",
    "advise",
    "diagnose",
    "repair",
]
