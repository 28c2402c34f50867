"""The data source `spark.read.format("ducklake")`."""
