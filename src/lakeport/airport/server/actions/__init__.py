"""The actions of the server: metadata, DDL, transactions, discovery."""
