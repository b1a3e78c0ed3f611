#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# benches/iosched/figures.sh OUT: figures 15 (throughput of both classes over time) and 16 (by the idle dispatch
# interval) of the paper on lp-deadline, once in guests with a virtual clock and once in the simulator, on the same
# model of a disk, drawn in one chart each, with the ratio of simulator to guest for every figure.
# MODELS="hdd ssd", NORMALS="random-0 random-10 sequential", INTERVALS_MS, SECONDS_EACH=10 narrow it; GUESTS=DIR takes what
# guests left there in an earlier OUT instead of starting them; PLUMB=target/debug/plumb is the program.
set -euo pipefail

. "$(dirname "${BASH_SOURCE[0]}")/guests.sh"
begin figures "$@"
plumb=$(realpath "${PLUMB:-$root/target/debug/plumb}") || true
kernel=6.1
models=${MODELS:-hdd ssd}
normals=${NORMALS:-random-0 random-10 sequential}
intervals=${INTERVALS_MS:-10 20 50 100 200 500 1000}
seconds=${SECONDS_EACH:-10}
timeline_mb_of() { case $1 in hdd) echo 800 ;; *) echo 400 ;; esac; }

in_guest() { # MODEL
	ready "$kernel"
	cat >"$work/figures.conf" <<-END
		MODEL=$1
		DISK="$disk"
		INTERVALS_MS="$intervals"
		NORMALS="$normals"
		SECONDS_EACH=$seconds
		TIMELINE_MB=$(timeline_mb_of "$1")
	END
	echo "figures: guest, $1, $(date +%T)" >&2
	guest "$kernel" "$here/figures-guest" "$out/guest/$1" virtual "$work/figures.conf" ||
		die "the guest of $1 did not end: $(tail -n 2 "$out/guest/$1/console")"
}

if [ -n "${GUESTS:-}" ]; then
	[ "$GUESTS" = "$out/guest" ] || cp -r "$GUESTS" "$out/guest"
else
	mkdir -p "$out/guest"
	for model in $models; do
		disk_of "$model"
		in_guest "$model"
	done
fi
[ -x "$plumb" ] || die "no program $plumb: cargo build -p plumb makes it, PLUMB=FILE names another"

# A row of cost.tsv, from the line through its two lengths.
cost_of() { # operation|per-kib FILE
	awk -v which="$1" '{ kb[NR] = $1; ns[NR] = $2 }
		END { per = (ns[2] - ns[1]) / (kb[2] - kb[1]); printf "%.0fns", which == "per-kib" ? per : ns[1] - per * kb[1] }' "$2"
}

job_of() { # NORMAL: a job file with both; their end is an option
	printf 'size = "512M"\nwhat = "read"\n[[step]]\noffset = "256M"\n'
	case $1 in
	random-*)
		printf 'order = "random"\nblock = "4K"\n'
		[ "$1" = random-0 ] || echo "think = \"${1#random-}ms\""
		;;
	sequential) echo 'block = "128K"' ;;
	esac
	printf '[[step.also]]\nsize = "256M"\nblock = "128K"\n'
}

for model in $models; do
	disk_of "$model"
	guest=$out/guest/$model
	sim=("$plumb" sim "$here/$model.toml" --disk-size 512M --idle=2 --scheduler lp-deadline --nr-requests 64
		--depth-of-device "$depth" --max-request 128K --cpus 1
		--cpu-per-operation "$(cost_of operation "$guest/cost.tsv")" --cpu-per-kib "$(cost_of per-kib "$guest/cost.tsv")")
	rm -rf "$out/$model"-*
	job_of sequential >"$work/job.toml"
	"${sim[@]}" --job "$work/job.toml" --bytes "$(timeline_mb_of "$model")M" --scheduler-set idle_dispatch_interval=200000 \
		--charts "$out/$model-timeline" --beside "$guest/timeline.csv" >"$out/$model-timeline.txt"
	for normal in $normals; do
		job_of "$normal" >"$work/job.toml"
		"${sim[@]}" --job "$work/job.toml" --time "${seconds}s" \
			--sweep "idle_dispatch_interval=$(sed 's/\([0-9][0-9]*\) */\1000,/g; s/,$//' <<<"$intervals")" \
			--charts "$out/$model-$normal" --beside "$guest/sweep-$normal.csv" >"$out/$model-$normal.txt"
		# Behind the empty line: the ratios.
		awk -v OFS='\t' -v model="$model" -v normal="$normal" \
			'$1 == "value" && $2 == "figure" { on = 1; next } on && NF == 5 { print model, normal, $1, $2, $3, $4, $5 }' \
			"$out/$model-$normal.txt" >>"$out/figures.tsv.new"
	done
done
{
	printf 'model\tnormal\tinterval_us\tfigure\tsimulated\tmeasured\tratio\n'
	cat "$out/figures.tsv.new"
} >"$out/figures.tsv"
rm "$out/figures.tsv.new"
echo "figures: $out/figures.tsv and its charts" >&2
