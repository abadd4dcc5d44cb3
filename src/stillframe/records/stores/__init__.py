"""Stores of records: SQLite, Redis, PostgreSQL, each behind `store.RecordStore`."""
