"""A lake, read by the pipeline, as an attachable catalog."""
