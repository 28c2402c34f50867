"""What the policies of a caller leave of the tables and views of a lake."""
