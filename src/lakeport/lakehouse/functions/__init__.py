"""Tables and functions about a lake, in the schema `lakeport`."""
