"""Which ways to capture the account at hand may use, and what would mend the others."""

from __future__ import annotations

import re

from stillframe.sources.base import Capture, Method
from stillframe.sources.mariadb.connect import Connection, Server

TRIGGER_RIGHTS = (
    *("SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "DROP", "ALTER", "TRIGGER"),
    *("CREATE ROUTINE", "ALTER ROUTINE", "EXECUTE"),
)
LOG_RIGHTS = ("SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "DROP")
_LOG_GAINS = (
    "every transaction by itself in the order of commits, hence also `complete`; writers do no more, and the"
    " server keeps its log for as long as it is told to"
)
_TRIGGER_GAINS = "every change, exactly, transaction by transaction"
_GRANT = re.compile(r"GRANT (.+?) ON (?:TABLE )?(\*|`(?:[^`]|``)*`)\.(\*|`(?:[^`]|``)*`) TO ", re.DOTALL)


def methods(con: Connection, server: Server) -> tuple[Method, ...]:
    settings = {
        name.lower(): str(value)
        for name, value in con.all(
            "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('log_bin', 'binlog_format', 'binlog_row_image',"
            " 'read_only', 'log_bin_trust_function_creators', 'slave_run_triggers_for_rbr')"
        )
    }
    rights = granted(con, server.database)
    return (
        Method(Capture.LOG, tuple(_for_log(server, settings, rights)), _LOG_GAINS),
        Method(Capture.TRIGGERS, tuple(_for_triggers(con, server, settings, rights)), _TRIGGER_GAINS),
        Method(Capture.SNAPSHOT, tuple(_for_snapshots(server, rights)), "nothing is installed"),
    )


def granted(con: Connection, database: str) -> frozenset[str]:
    """The rights the account has on all of the database, or on everything; ALL stands for them all."""
    found: set[str] = set()
    for (text,) in con.all("SHOW GRANTS"):
        if (grant := _GRANT.match(text)) and grant[3] == "*" and _covers(grant[2], database):
            names = {name.strip().upper() for name in grant[1].split(",")}
            found |= {"ALL" if n.startswith("ALL PRIVILEGES") else n for n in names}
            if grant[2] == "*" and "ALL PRIVILEGES" in names:
                found.add("ALL GLOBAL")
    return frozenset(found)


def _covers(pattern: str, database: str) -> bool:
    """Grants name databases by patterns, in which _ and % stand for others unless escaped."""
    if pattern == "*":
        return True
    parts = re.split(r"(\\.|[_%])", pattern[1:-1].replace("``", "`"))
    wild = {"_": ".", "%": ".*"}
    expression = "".join(wild.get(p) or re.escape(p[1:] if p[:1] == "\\" else p) for p in parts)
    return re.fullmatch(expression, database, re.DOTALL | re.IGNORECASE) is not None


def _lacks(rights: frozenset[str], *names: str, everywhere: bool = False) -> list[str]:
    if "ALL GLOBAL" in rights or ("ALL" in rights and not everywhere):
        return []
    return [name for name in names if name not in rights]


def _grant(server: Server, names: list[str], where: str) -> str:
    return f"the right {', '.join(names)}: GRANT {', '.join(names)} ON {where} TO {server.user!r}"


def _for_triggers(
    con: Connection, server: Server, settings: dict[str, str], rights: frozenset[str]
) -> list[str]:
    missing = []
    if lacking := _lacks(rights, *TRIGGER_RIGHTS):
        missing.append(_grant(server, lacking, f"`{server.database}`.*"))
    if settings["read_only"] == "ON" and _lacks(
        rights, "READ_ONLY ADMIN", "READ ONLY ADMIN", everywhere=True
    ):
        missing.append("a server that takes writes: read_only is ON here")
    if settings["log_bin"] == "ON":
        trusted = settings["log_bin_trust_function_creators"] == "ON"
        if not trusted and _lacks(rights, "SUPER", everywhere=True):
            missing.append(
                "leave to make triggers where there is a binary log:"
                " SET GLOBAL log_bin_trust_function_creators = 1"
                f" (or GRANT SUPER ON *.* TO {server.user!r})"
            )
        if settings["binlog_format"] == "STATEMENT":
            missing.append(
                "a binary log that triggers can be replayed from: SET GLOBAL binlog_format = MIXED"
            )
    replica = con.one("SHOW GLOBAL STATUS LIKE 'Slaves_running'")
    if replica and replica[1] not in ("0", "") and settings["slave_run_triggers_for_rbr"] == "NO":
        missing.append(
            "a server that is no replica: replicated rows fire no trigger"
            " (unless SET GLOBAL slave_run_triggers_for_rbr = LOGGING)"
        )
    return missing


def _for_log(server: Server, settings: dict[str, str], rights: frozenset[str]) -> list[str]:
    missing = []
    if settings["log_bin"] != "ON":
        missing.append("a binary log: start the server with --log-bin")
    if settings["binlog_format"] != "ROW":
        missing.append("rows in the binary log: SET GLOBAL binlog_format = ROW")
    if settings["binlog_row_image"] != "FULL":
        missing.append("whole rows in the binary log: SET GLOBAL binlog_row_image = FULL")
    if lacking := _lacks(rights, "REPLICATION SLAVE", "BINLOG MONITOR", everywhere=True):
        missing.append(_grant(server, lacking, "*.*"))
    if lacking := _lacks(rights, *LOG_RIGHTS):
        missing.append(_grant(server, lacking, f"`{server.database}`.*"))
    return missing


def _for_snapshots(server: Server, rights: frozenset[str]) -> list[str]:
    lacking = _lacks(rights, "SELECT")
    return [_grant(server, lacking, f"`{server.database}`.*")] if lacking else []
