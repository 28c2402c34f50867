from .listings import is_listing, run_listing
from .parser import is_statement, parse_statement
from .results import result_frame
from .runner import run_statement
from .tokens import Token, tokens_of

__all__ = [
    "Token",
    "is_listing",
    "is_statement",
    "parse_statement",
    "result_frame",
    "run_listing",
    "run_statement",
    "tokens_of",
]
