"""What a client sends besides scans: DDL, writes and function calls."""
