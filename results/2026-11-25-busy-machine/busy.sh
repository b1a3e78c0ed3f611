#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# busy.sh start|load SECONDS|stop: PostgreSQL with pgbench, nginx with ab, and a C build over and over, in $BUSY.
B=${BUSY:?a directory for it}
PGB=$(ls -d /usr/lib/postgresql/*/bin)
case $1 in
start)
  rm -rf $B/data $B/ng $B/src; mkdir -p $B/data $B/ng/www $B/src
  chown postgres $B/data
  runuser -u postgres -- $PGB/initdb -D $B/data -A trust >/dev/null
  setsid runuser -u postgres -- $PGB/postgres -D $B/data -p 5544 -k $B/data >$B/pg.log 2>&1 &
  sleep 2
  runuser -u postgres -- psql -h $B/data -p 5544 -qc 'create database bench' postgres
  pgbench -h $B/data -p 5544 -U postgres -i -s 5 -q bench 2>/dev/null
  head -c 200000 /dev/urandom > $B/ng/www/f
  cat > $B/ng/conf <<X
daemon off; worker_processes 2; pid $B/ng/pid; error_log $B/ng/err; events { worker_connections 256; }
http { access_log off; server { listen 127.0.0.1:8099; root $B/ng/www; } }
X
  setsid nginx -c $B/ng/conf >/dev/null 2>&1 &
  for i in $(seq 60); do
    { for j in $(seq 300); do echo "int f${i}_$j(int x) { int s = 0; for (int k = 0; k < x; k++) s += k * $j; return s; }"; done; } > $B/src/f$i.c
  done
  { echo "OBJ := $(for i in $(seq 60); do printf 'f%d.o ' $i; done)"; echo 'all: lib.a'; printf 'lib.a: $(OBJ)\n\tar rcs $@ $^\n'; printf '%%.o: %%.c\n\tsh -c "gcc -O2 -c -o $@ $<"\n'; } > $B/src/Makefile
  chmod 755 $B $B/ng $B/ng/www
  ;;
load)
  setsid pgbench -h $B/data -p 5544 -U postgres -c 4 -T ${2:-60} bench >$B/pgbench.out 2>&1 &
  setsid ab -q -k -c 4 -t ${2:-60} -n 10000000 http://127.0.0.1:8099/f >$B/ab.out 2>&1 &
  ( end=$((SECONDS+${2:-60})); n=0; while [ $SECONDS -lt $end ]; do make -s -C $B/src -j2 all >/dev/null 2>&1; make -s -C $B/src -n >/dev/null; rm -f $B/src/*.o $B/src/lib.a; n=$((n+1)); done; echo builds $n > $B/make.out ) &
  ;;
stop) pkill -f "nginx: master"; pkill -x nginx; pkill postgres; pkill ab; pkill pgbench;;
esac
