"""MariaDB, captured in three ways: `triggers` (`capture`, `install`, `log`, `position`, `segments`,
`witness`, `trim`), the server's `binlog` (`events`, `walk`, `rows`, `changes`, `books`), and
`snapshot_reader`. Common to them: `database`, `connect`, `catalog`, `types`, `queries`, `read` and
`rights`."""
