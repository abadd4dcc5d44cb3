"""PostgreSQL, captured in three ways: `triggers` (`capture`, `install`, `log`), `logical` decoding of the
server's log (`publish`, `slots`, `decoded`, `rows`), and `snapshot_reader`. Common to them: `database`,
`catalog`, `types`, `read`, `seen` (which transactions a snapshot sees), and `rights`."""
