from .queries import check_is_query, query, restricted_session, untrusted_query
from .registration import register_as, view_name, view_names

__all__ = [
    "check_is_query",
    "query",
    "register_as",
    "restricted_session",
    "untrusted_query",
    "view_name",
    "view_names",
]
