#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# benches/record/wait-events.sh OUT [PLUMB]: PostgreSQL's wait events as plumb records them, beside a sampling of
# pg_stat_activity 100 times a second and the durations that the server's own probes (USDT, by bpftrace) tell of LWLocks.
# pgbench -N with 8 clients on a served disk of 2004 for 20 s. Needs root, postgresql, bpftrace and python3.
set -eu

[ $# -ge 1 ] || {
	echo "usage: benches/record/wait-events.sh OUT [PLUMB]" >&2
	exit 2
}
out=$(mkdir -p "$1" && cd "$1" && pwd)
plumb=${2:-$(cd "$(dirname "$0")/../.." && pwd)/target/release/plumb}
bin=$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
work=$(mktemp -d)
data=$work/disk/data
chmod 755 "$work"
server=
clean() {
	[ -z "$server" ] || { kill -INT "$server" && wait "$server" || true; }
	! mountpoint -q "$work/disk" || umount "$work/disk"
	"$plumb" disk stop wait-events >/dev/null 2>&1 || true
	rm -rf "$work"
}
trap clean EXIT
cd /

device=$("$plumb" disk serve atlas10k4 --size 2G --detach --name wait-events --json |
	python3 -c 'import json, sys; print(json.load(sys.stdin)["device"])')
mkdir "$work/disk"
mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 "$device"
mount "$device" "$work/disk"
mkdir "$data"
chown 65534 "$data" "$work"
setpriv --reuid=65534 --regid=65534 --clear-groups "$bin/initdb" -U postgres -A trust -D "$data" >/dev/null
setpriv --reuid=65534 --regid=65534 --clear-groups "$bin/postgres" -D "$data" -k "$work" -c listen_addresses= \
	-c autovacuum=off >"$work/log" 2>&1 &
server=$!
until "$bin/psql" -h "$work" -U postgres -qc 'select 1' postgres >/dev/null 2>&1; do sleep 0.1; done
"$bin/pgbench" -h "$work" -U postgres -i -q postgres >/dev/null 2>&1
"$bin/pgbench" -h "$work" -U postgres -n -N -c 8 -T 30 postgres >"$out/pgbench.txt" 2>&1 &
clients=$!
sleep 3

cat >"$work/probes.bt" <<END
usdt:$bin/postgres:postgresql:lwlock__wait__start { @since[tid] = nsecs; }
usdt:$bin/postgres:postgresql:lwlock__wait__done /@since[tid]/ { @ns = sum(nsecs - @since[tid]); @waits = count(); delete(@since[tid]); }
interval:s:20 { exit(); }
END { clear(@since); }
END
cat >"$work/sample.sql" <<'END'
\t
\a
select statement_timestamp(), coalesce(wait_event_type || ':' || wait_event, 'CPU') from pg_stat_activity where pid <> pg_backend_pid() \watch 0.01
END
bpftrace "$work/probes.bt" >"$out/usdt.txt" 2>&1 &
probes=$!
sleep 2
"$plumb" record -q --programs waits --pid "$server" --for 20s -o "$work/trace" &
recorder=$!
# Before all others: a sampler that waits for a CPU while the backends want it would sample the other moments.
timeout 20 chrt -f 10 "$bin/psql" -h "$work" -U postgres -X -q -f "$work/sample.sql" postgres >"$out/samples.txt" &
sampler=$!
sleep 0.3
backend=$("$bin/psql" -h "$work" -U postgres -XAtc "select pid from pg_stat_activity where application_name = 'psql' and pid <> pg_backend_pid()" postgres)
chrt -f -p 10 "$backend"
wait "$sampler" || true
wait "$recorder" "$probes" "$clients"
"$plumb" explain --json "$work/trace" >"$out/explain.json"
python3 - "$out" <<'END'
import collections, json, re, statistics, sys
out = sys.argv[1]
rows = [l.rstrip().split("|") for l in open(f"{out}/samples.txt")]
ticks = collections.defaultdict(collections.Counter)
for row in rows:
    if len(row) == 2:
        ticks[row[0]][row[1]] += 1
result = json.load(open(f"{out}/explain.json"))
whole = result["end"] - result["begin"]
events = {w["name"]: w for w in result["wait_events"]}
# Of all processes but the sampler: the WAL writer waits for the lock too.
print("| event | sampled, mean processes in it | plumb | asleep |\n|---|---|---|---|")
for name in ("LWLock:WALWrite", "IO:WALSync"):
    counts = [t[name] for t in ticks.values()]
    error = 1.96 * statistics.stdev(counts) / len(counts) ** 0.5
    e = events[name]
    print(f"| {name} | {statistics.mean(counts):.3f} +- {error:.3f} | {e['elapsed'] / whole:.3f} | {e['time'] / whole:.3f} |")
ns, waits = (int(re.search(f"@{k}: (\\d+)", open(f"{out}/usdt.txt").read())[1]) for k in ("ns", "waits"))
ours = [w for name, w in events.items() if name.startswith("LWLock:")]
total, count = sum(w["elapsed"] for w in ours), sum(w["waits"] for w in ours)
print(f"\nLWLocks: the server's probes have {waits:,} waits and {ns / 1e9:.3f} s; plumb has {count:,} that slept and {total / 1e9:.3f} s ({(total / ns - 1) * 100:+.2f} %).")
END
