"""DuckLake, the format: from a catalog database to a scan plan. No Spark and no Flight in here."""

from lakeport.ducklake.lake import Lake
from lakeport.ducklake.table import LakeTable

__all__ = ["Lake", "LakeTable"]
