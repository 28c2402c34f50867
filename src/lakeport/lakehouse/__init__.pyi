from .catalog import LakeCatalog
from .names import check_main_as
from .policies.checks import check_policies

__all__ = ["LakeCatalog", "check_main_as", "check_policies"]
