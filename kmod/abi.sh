#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# kmod/abi.sh TYPES KDIR SOURCE: prints lp_abi.h, what the module must know of a kernel that its headers do not tell.
#
# The elevator interface is private to the kernel's block/ and changes within stable series and between vendors. So
# nothing of it is written down here: declarations are made from the type information (BTF) of the very kernel that
# the module is built for, and the compiler is told to check them against it. TYPES: that kernel's vmlinux, vmlinuz,
# or /sys/kernel/btf/vmlinux; KDIR: its build directory; SOURCE: where its headers' include/ is.
set -euo pipefail
export PATH="$PATH:/usr/sbin:/sbin"

die() {
	echo "abi: $*" >&2
	exit 1
}
[ $# -eq 3 ] || die "usage: abi.sh TYPES KDIR SOURCE"
types=$1 kdir=$2 source=$3
[ -r "$types" ] || die "$types: no such file; install the kernel's image beside its headers, or give its vmlinux or vmlinuz as BTF=FILE"
[ -r "$kdir/Module.symvers" ] || die "$kdir/Module.symvers: no such file; is KDIR a kernel's build directory?"
command -v bpftool >/dev/null || die "bpftool is missing (Debian: apt-get install bpftool)"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Private types, and functions that are exported without a public header.
STRUCTS="elv_fs_entry elevator_mq_ops elevator_type elevator_queue blk_mq_alloc_data blk_mq_tags"
FUNCTIONS="elv_register elv_unregister elevator_alloc elv_bio_merge_ok elv_rqhash_add elv_rqhash_del
	elv_rb_former_request elv_rb_latter_request blk_mq_sched_try_merge blk_mq_sched_try_insert_merge
	wbt_disable_default wbt_enable_default"
# Public ones, whose layout says whether the headers are this kernel's.
WITNESSES="request bio request_queue blk_mq_hw_ctx"

# Boot protocol, fields setup_sects, header, payload_offset, payload_length: Documentation/arch/x86/boot.rst.
unpack_image() {
	local sectors offset length unpack
	sectors=$(od -An -tu1 -j $((0x1f1)) -N 1 "$1")
	offset=$(od -An -tu4 -j $((0x248)) -N 4 "$1")
	length=$(od -An -tu4 -j $((0x24c)) -N 4 "$1")
	offset=$(((sectors + 1) * 512 + offset))
	case $(od -An -tx1 -j "$offset" -N 4 "$1" | tr -d ' ') in
	fd377a58) unpack=xz ;;
	28b52ffd) unpack=zstd ;;
	1f8b*) unpack=gzip ;;
	*) die "$1 is packed in a way that is not known here; unpack it and give the vmlinux" ;;
	esac
	# The unpacked length follows the data, in four bytes.
	dd if="$1" bs=1M iflag=skip_bytes,count_bytes skip="$offset" count="$((length - 4))" status=none |
		"$unpack" -dcq
}

if [ "$(dd if="$types" bs=1 skip=$((0x202)) count=4 status=none | tr -d '\0')" = HdrS ]; then
	unpack_image "$types" >"$work/vmlinux"
	types=$work/vmlinux
fi
bpftool btf dump file "$types" format c >"$work/c" 2>"$work/log" ||
	die "bpftool finds no type information in $1: $(head -n 1 "$work/log")"
bpftool btf dump file "$types" >"$work/raw"

exported() { awk -v name="$1" '$2 == name { found = 1 } END { exit !found }' "$kdir/Module.symvers"; }
public() { grep -rqsE "^$1 \{" "$source/include/linux"; }
definition() { awk -v head="$1 {" '$0 == head { on = 1 } on { print } on && /^}/ { exit }' "$work/c"; }
feature() { # NAME COMMAND...
	local name=$1
	shift
	if "$@"; then echo "#define $name 1"; fi
}
operation() { definition 'struct elevator_mq_ops' | grep -q "(\*$1)($2"; }
member() { definition "struct $1" | grep -qw "$2"; }

cat <<'END'
/* SPDX-License-Identifier: GPL-2.0-only */
/* Made by abi.sh from the type information of one kernel. Do not edit. */
#ifndef LP_ABI_H
#define LP_ABI_H

#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/kobject.h>
#include <linux/mutex.h>
#include <linux/sbitmap.h>

END
for name in $STRUCTS; do echo "struct $name;"; done
public 'enum elv_merge' || definition 'enum elv_merge'
grep -x 'typedef unsigned int blk_insert_t;' "$work/c" || true
wanted=
for name in $STRUCTS; do
	public "struct $name" && continue
	[ -n "$(definition "struct $name")" ] || die "this kernel has no struct $name; the module does not know it"
	definition "struct $name"
	wanted="$wanted $name"
done
echo
feature LP_INIT_TAKES_QUEUE operation init_sched 'struct request_queue \*, struct elevator_queue'
feature LP_ELEVATOR_ALLOC exported elevator_alloc
feature LP_DEPTH_UPDATED_TAKES_QUEUE operation depth_updated 'struct request_queue'
feature LP_INSERT_TAKES_FLAGS operation insert_requests '.*, blk_insert_t'
feature LP_ELEVATOR_FEATURES member elevator_type elevator_features
feature LP_ZONE_LOCKS exported __blk_req_zone_write_lock
feature LP_HRTIMER_SETUP exported hrtimer_setup
feature LP_WBT exported wbt_disable_default
echo
functions=
for name in $FUNCTIONS; do
	if exported "$name"; then functions="$functions $name"; fi
done
awk -v functions="$functions" -v structs="$wanted $WITNESSES" '
	BEGIN {
		n = split(functions, list, " ")
		for (i = 1; i <= n; i++) is_function[list[i]] = 1
		n = split(structs, list, " ")
		for (i = 1; i <= n; i++) is_struct[list[i]] = 1
	}
	function number(key) {
		if (!match($0, key "=[0-9]+")) return 0
		return substr($0, RSTART + length(key) + 1, RLENGTH - length(key) - 1)
	}
	function word() {
		match($0, /\047[^\047]*\047/)
		return substr($0, RSTART + 1, RLENGTH - 2)
	}
	/^\[/ {
		id = $1
		gsub(/[][]/, "", id)
		kind[id] = $2
		name[id] = word()
		of[id] = $2 == "FUNC_PROTO" ? number("ret_type_id") : number("type_id")
		members = 0
		if ($2 == "FUNC" && name[id] in is_function) proto[name[id]] = of[id]
		inside = $2 == "STRUCT" && name[id] in is_struct ? name[id] : ""
		if (inside && !(inside in size)) size[inside] = number("size")
		else inside = ""
		next
	}
	kind[id] == "FUNC_PROTO" { parameter[id, count[id]++] = number("type_id") }
	inside && !/bitfield_size/ && word() != "(anon)" { offset[inside, word()] = number("bits_offset") / 8 }
	function type(t) {
		if (t == 0) return "void"
		if (kind[t] == "PTR") return type(of[t]) " *"
		if (kind[t] == "CONST") return "const " type(of[t])
		if (kind[t] == "STRUCT") return "struct " name[t]
		if (kind[t] == "UNION") return "union " name[t]
		if (kind[t] == "ENUM") return "enum " name[t]
		return name[t]
	}
	END {
		for (f in proto) {
			line = type(of[proto[f]]) " " f "("
			for (i = 0; i < count[proto[f]]; i++) line = line (i ? ", " : "") type(parameter[proto[f], i])
			print line (i ? "" : "void") ");"
		}
		for (s in size)
			print "static_assert(sizeof(struct " s ") == " size[s] ", \"headers of another kernel\");"
		for (m in offset) {
			split(m, part, SUBSEP)
			print "static_assert(offsetof(struct " part[1] ", " part[2] ") == " offset[m] \
				", \"headers of another kernel\");"
		}
	}' "$work/raw" | sort
printf '\n#endif\n'
