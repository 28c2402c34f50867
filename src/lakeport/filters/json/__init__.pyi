from .parse import parse_filter
from .write import to_json

__all__ = ["parse_filter", "to_json"]
