from .added_files import read_added_files
from .delete_files import write_delete_file
from .encoding.layout import INTERNAL_FIELDS, FileLayout
from .fitting import RowFitter
from .names import FileNamer, data_file_path, delete_file_name, uuid7
from .partitions import Partitioner, bucket_numbers
from .sorting import sorted_batches
from .target import FileOptions, FileTarget
from .writer import FileWriter, write_files

__all__ = [
    "INTERNAL_FIELDS",
    "FileLayout",
    "FileNamer",
    "FileOptions",
    "FileTarget",
    "FileWriter",
    "Partitioner",
    "RowFitter",
    "bucket_numbers",
    "data_file_path",
    "delete_file_name",
    "read_added_files",
    "sorted_batches",
    "uuid7",
    "write_delete_file",
    "write_files",
]
