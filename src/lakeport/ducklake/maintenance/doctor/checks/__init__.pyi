from .all_checks import CHECKS
from .contents import check_contents
from .indexes import existing_indexes

__all__ = ["CHECKS", "check_contents", "existing_indexes"]
