"""A lake, read by the pipeline, as an attachable catalog.

import lakeport
from lakeport.lakehouse import LakeCatalog

lakeport.serve(LakeCatalog("ducklake:meta.ducklake"))
"""

from lakeport._lazy import attach

# Names are loaded on first use, from the modules that `__init__.pyi` lists.
__getattr__, __dir__, __all__ = attach(__name__)
