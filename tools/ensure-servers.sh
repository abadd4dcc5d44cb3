#!/bin/sh
# The tests start PostgreSQL, MariaDB and Redis servers of their own. Missing: installed when we may, else
# said how.
set -eu
missing=""
[ -n "$(ls /usr/lib/postgresql/*/bin/postgres 2>/dev/null)" ] || missing="$missing postgresql"
PATH="$PATH:/usr/sbin"
command -v mariadbd >/dev/null 2>&1 || missing="$missing mariadb-server"
command -v redis-server >/dev/null 2>&1 || missing="$missing redis-server"
[ -z "$missing" ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
  echo "installing$missing"
  apt-get update -qq
  # shellcheck disable=SC2086
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $missing
  exit 0
fi
echo "The tests need database servers that are missing. Install them with:" >&2
echo "    sudo apt-get install$missing" >&2
exit 1
