"""The statements of a client other than scans: DDL, writes and function calls."""
