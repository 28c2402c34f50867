from .filesystems import S3Secret, Storage
from .paths import hive_value, is_local, local_path

__all__ = [
    "S3Secret",
    "Storage",
    "hive_value",
    "is_local",
    "local_path",
]
