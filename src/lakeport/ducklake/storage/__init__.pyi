from .descriptors import keep_reserve, reserve, usage
from .filesystems import S3Secret, Storage
from .paths import check_regular, hive_value, is_local, local_path

__all__ = [
    "S3Secret",
    "Storage",
    "check_regular",
    "hive_value",
    "is_local",
    "keep_reserve",
    "local_path",
    "reserve",
    "usage",
]
