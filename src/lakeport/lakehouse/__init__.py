"""A lake, read by the pipeline, as an attachable catalog.

import lakeport
from lakeport.lakehouse import LakeCatalog

lakeport.serve(LakeCatalog("ducklake:meta.ducklake"))
"""

from lakeport.lakehouse.catalog import LakeCatalog

__all__ = ["LakeCatalog"]
