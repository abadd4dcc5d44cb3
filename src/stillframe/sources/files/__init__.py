"""Exports, CSV or Parquet: `reader` says what relation they are; `csv`, `parquet`, `types` and `keys` what a
row is; `stamp` whether anything was replaced. They are captured by snapshots
(`stillframe.sources.snapshots`)."""
