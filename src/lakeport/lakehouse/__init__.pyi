from .catalog import LakeCatalog
from .names import check_main_as
from .policies.checks import check_policies
from .resources import ScheduledMaintenance

__all__ = ["LakeCatalog", "ScheduledMaintenance", "check_main_as", "check_policies"]
