from .frame_stream import stream_dataframe
from .job import stream_metrics

__all__ = ["stream_dataframe", "stream_metrics"]
