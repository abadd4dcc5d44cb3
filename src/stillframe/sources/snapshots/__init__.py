"""Capture by comparing snapshots, for whatever can only be read whole. `source` is the source; a `reader`
gives it rows; `taking` compares them with the last time, `store` keeps the differences, `log` and `read`
give them back."""
