from .queries import check_is_query, query, restricted_session, untrusted_query
from .registration import register_as, view_name, view_names
from .statements import is_statement, run_statement

__all__ = [
    "check_is_query",
    "is_statement",
    "query",
    "register_as",
    "restricted_session",
    "run_statement",
    "untrusted_query",
    "view_name",
    "view_names",
]
