from .parser import is_statement, parse_statement
from .results import result_frame
from .runner import run_statement

__all__ = ["is_statement", "parse_statement", "result_frame", "run_statement"]
