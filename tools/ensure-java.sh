#!/bin/sh
# Apache Spark needs Java 17 or later. Found: nothing to do. Missing: installed when we may, else said how.
set -eu
if command -v java >/dev/null 2>&1; then
  exit 0
fi
if [ -n "${JAVA_HOME:-}" ] && [ -x "$JAVA_HOME/bin/java" ]; then
  exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
  echo "Java is missing; installing openjdk-17-jre-headless"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq openjdk-17-jre-headless
  exit 0
fi
echo "Java 17 is missing, and Apache Spark needs it. Install it with:" >&2
echo "    sudo apt-get install openjdk-17-jre-headless" >&2
exit 1
