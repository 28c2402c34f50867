from .parameters import with_arguments
from .queries import check_is_query, query, restricted_session, untrusted_query
from .registration import register_as, view_name, view_names
from .statements import is_listing, is_statement, run_listing, run_statement

__all__ = [
    "check_is_query",
    "is_listing",
    "is_statement",
    "query",
    "register_as",
    "restricted_session",
    "run_listing",
    "run_statement",
    "untrusted_query",
    "view_name",
    "view_names",
    "with_arguments",
]
