from .catalog import LakeCatalog
from .names import check_main_as

__all__ = ["LakeCatalog", "check_main_as"]
