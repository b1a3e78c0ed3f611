#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# tests/traces/postgresql.sh DIR: records row-lock into DIR, as root, with a PostgreSQL 15 of its own in /srv/postgresql
# that is removed at the end: one session updates a row and commits 0.3 s later, another one wants the same row.
set -eu

data=/srv/postgresql
bin=/usr/lib/postgresql/15/bin
plumb=$(dirname "$0")/../../target/release/plumb
[ $# -eq 1 ] && [ ! -e "$data" ] || {
	echo "usage: tests/traces/postgresql.sh DIR; $data must not exist" >&2
	exit 2
}
as() { setpriv --reuid=postgres --regid=postgres --clear-groups "$@"; }
sql() { psql -h $data -U postgres -X -q -A -t "$@" postgres; }

install -d -o postgres $data
cd /
as $bin/initdb -D $data -A trust >/dev/null
as $bin/pg_ctl -D $data -l $data/log -w -o "-k $data -c listen_addresses= -c autovacuum=off -c max_logical_replication_workers=0" start >/dev/null
trap 'as $bin/pg_ctl -D $data -m fast stop >/dev/null; rm -r $data' EXIT
sql -c "create table account (id int primary key, v int)" -c "insert into account values (1, 0)" -c checkpoint
"$plumb" record -q --only-target --sample off --stacks 10ms --span-text --pid "$(head -n 1 $data/postmaster.pid)" -o "$1" &
sleep 1
printf 'begin; update account set v = v + 1 where id = 1;\n\\! sleep 0.3\ncommit;\n' | sql &
sleep 0.15
sql -c "update account set v = v + 2 where id = 1"
sleep 0.3
kill -INT %1
wait
