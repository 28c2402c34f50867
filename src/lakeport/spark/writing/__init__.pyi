from .appends import write_frame
from .jobs import WriteJob

__all__ = ["WriteJob", "write_frame"]
