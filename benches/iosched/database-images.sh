# SPDX-License-Identifier: Apache-2.0 OR MIT
# shellcheck shell=bash
# What a guest with a database is given: programs and tables, as images of disks in $images. Sourced after kbuild.sh;
# functions leave a word in $reason when they fail.

# Of each image; QEMU wants a multiple of 128.
DISK_MB=768
# Tables of 380 and 450 MB.
ROWS=1600000
SCALE=30

# programs: $images/programs.img, a small Debian of this machine's release with the servers and their clients.
programs() {
	local tree=$images/programs
	[ ! -e "$images/programs.img" ] || return 0
	if [ "$(id -u)" -ne 0 ]; then
		reason="the databases' programs are unpacked by debootstrap, which takes root"
		return 1
	fi
	if [ ! -e "$tree" ]; then
		echo "database: unpacking MariaDB, PostgreSQL and sysbench (Debian packages) into $tree" >&2
		rm -rf "$tree.new"
		if ! debootstrap --variant=minbase --include=mariadb-server-core,mariadb-client-core,postgresql-15,sysbench \
			"$(archive 2)" "$tree.new" "$(archive 1)" >"$images/programs.log" 2>&1; then
			reason="debootstrap: $(tail -n 1 "$images/programs.log")"
			return 1
		fi
		mkdir -p "$tree.new/data"
		rm -rf "$tree.new"/var/cache/apt/archives/*.deb "$tree.new"/var/lib/apt/lists/*
		mv "$tree.new" "$tree"
	fi
	image "$tree" "$images/programs.img" $DISK_MB '^has_journal'
}

# tables SERVER: $images/SERVER.img, an ext4 with the server's directory, loaded.
tables() {
	local server=$1 data=$images/$1-data stamp="$DISK_MB $ROWS $SCALE"
	[ "$(cat "$images/$server.stamp" 2>/dev/null)" != "$stamp" ] || return 0
	echo "database: loading $server's tables into $images/$server.img" >&2
	rm -rf "$data" "$images/$server.img"
	mkdir -p "$data"
	# Server and mounts go with the namespaces.
	if ! unshare --mount --pid --fork --kill-child sh -ec 'mount -t proc proc "$1/proc"
		mount -t tmpfs tmp "$1/tmp"
		mount -t tmpfs run "$1/run"
		mkdir -p "$1/dev/shm"
		mount -t tmpfs shm "$1/dev/shm"
		mount --bind "$2" "$1/data"
		chroot "$1" sh -ec "$3"' sh "$images/programs" "$data" "$("load_$server")" >"$images/$server.log" 2>&1; then
		reason="loading $server's tables failed, see $images/$server.log: $(tail -n 1 "$images/$server.log")"
		return 1
	fi
	# Checksums would be guest CPU time that no kernel of the table needs to agree on.
	image "$data" "$images/$server.img" $DISK_MB '^metadata_csum' || return 1
	rm -rf "$data"
	echo "$stamp" >"$images/$server.stamp"
}

image() { # TREE FILE MB FEATURES
	if ! mke2fs -q -F -t ext4 -O "$4" -m 0 -E lazy_itable_init=0,lazy_journal_init=0 -d "$1" "$2.new" "$3M" >"$2.log" 2>&1; then
		reason="mke2fs $2: $(tail -n 1 "$2.log")"
		return 1
	fi
	mv "$2.new" "$2"
}

load_mariadb() {
	cat <<-END
		mariadb-install-db --no-defaults --user=root --datadir=/data/mariadb --skip-test-db \
			--auth-root-authentication-method=normal --innodb-log-file-size=32M
		mariadbd --no-defaults --user=root --datadir=/data/mariadb --socket=/tmp/socket --skip-networking \
			--skip-grant-tables --innodb-log-file-size=32M --innodb-flush-log-at-trx-commit=0 \
			--innodb-doublewrite=0 --innodb-buffer-pool-size=256M --innodb-fast-shutdown=0 \
			--innodb-buffer-pool-dump-at-shutdown=0 &
		server=\$!
		for i in \$(seq 60); do mariadb --socket=/tmp/socket -e 'SELECT 1' && break; sleep 1; done
		mariadb --socket=/tmp/socket -e 'CREATE DATABASE sbtest'
		sysbench oltp_read_only --mysql-socket=/tmp/socket --mysql-user=root --tables=1 --table-size=$ROWS \
			--create-secondary=false prepare
		mariadb --socket=/tmp/socket -e SHUTDOWN
		wait \$server
	END
}

load_postgresql() {
	cat <<-END
		chmod 1777 /tmp /dev/shm
		mkdir /data/postgresql
		chown postgres /data/postgresql
		cat >/tmp/load <<-'LOAD'
			set -e
			export PATH=/usr/lib/postgresql/15/bin:\$PATH
			initdb -D /data/postgresql --no-locale -E UTF8 -A trust
			pg_ctl -D /data/postgresql -w -l /tmp/log -o "-c listen_addresses= -c unix_socket_directories=/tmp \
				-c fsync=off -c max_wal_size=64MB -c min_wal_size=32MB -c wal_level=minimal -c max_wal_senders=0" start
			createdb -h /tmp bench
			pgbench -h /tmp -i -q -s $SCALE bench
			pg_ctl -D /data/postgresql -w stop
		LOAD
		cd /tmp
		su postgres -s /bin/sh -c 'sh /tmp/load'
	END
}
