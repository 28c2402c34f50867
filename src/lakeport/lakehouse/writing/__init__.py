"""Writing to a lake from its clients: staged transactions, rows, definitions."""
