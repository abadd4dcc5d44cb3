"""SQLite: `source` by triggers (`capture` installs them, `log` keeps them, `read` reads states),
`snapshot_reader` for capture by snapshots; `catalog` and `types` say what a table is to us."""
