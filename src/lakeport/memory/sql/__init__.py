"""SQL text of clients in the catalog in memory: parse it, check it, evaluate it in bounds."""
