"""SQL expressions that clients send to the memory catalog: parsing, checks, evaluation."""
