#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# benches/iosched/figures.sh OUT: figures 15 (throughput of both classes over time) and 16 (by the idle dispatch
# interval) of the paper on lp-deadline, and the like by the length of a batch, once in guests with a virtual clock and once
# in the simulator, on the same model of a disk, drawn in one chart each, with the ratio of simulator to guest for every figure.
# MODELS="hdd ssd", NORMALS="random-0 random-10 sequential", INTERVALS_US, BATCHES_KB (of a disk that turns), SECONDS_EACH=30,
# SECONDS_BATCH=120 narrow it; GUESTS=DIR takes what guests left there in an earlier OUT instead of starting them;
# PLUMB=target/debug/plumb is the program.
set -euo pipefail

. "$(dirname "${BASH_SOURCE[0]}")/guests.sh"
begin figures "$@"
plumb=$(realpath "${PLUMB:-$root/target/debug/plumb}") || true
kernel=6.1
models=${MODELS:-hdd ssd}
normals=${NORMALS:-random-0 random-10 sequential}
intervals=${INTERVALS_US:-10000 20000 50000 100000 200000 500000 1000000}
seconds=${SECONDS_EACH:-30}
batch_seconds=${SECONDS_BATCH:-120}
batches_of() { case $1 in hdd) echo "${BATCHES_KB:-0 512 2048 5120}" ;; esac; }
timeline_mb_of() { case $1 in hdd) echo 800 ;; *) echo 400 ;; esac; }

in_guest() { # MODEL
	local files=("$work/figures.conf")
	bring "$(command -v chrt)"
	ready "$kernel"
	cat >"$work/figures.conf" <<-END
		MODEL=$1
		DISK="$disk"
		INTERVALS_US="$intervals"
		BATCHES_KB="$(batches_of "$1")"
		SECONDS_BATCH=$batch_seconds
		NORMALS="$normals"
		SECONDS_EACH=$seconds
		TIMELINE_MB=$(timeline_mb_of "$1")
	END
	echo "figures: guest, $1, $(date +%T)" >&2
	guest "$kernel" "$here/figures-guest" "$out/guest/$1" virtual "${files[@]}" ||
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

sweep() { # KNOB VALUES SECONDS NAME BESIDE [OPTION...]
	local knob=$1 values=${2// /,} seconds=$3 name=$4 beside=$5
	shift 5
	"${sim[@]}" --job "$work/job.toml" --time "${seconds}s" --sweep "$knob=$values" "$@" \
		--charts "$out/$name" --beside "$beside" >"$out/$name.txt"
	# Behind the empty line: the ratios.
	awk -v OFS='\t' -v model="$model" -v normal="$normal" -v knob="$knob" \
		'$1 == "value" && $2 == "figure" { on = 1; next } on && NF == 5 { print model, normal, knob, $1, $2, $3, $4, $5 }' \
		"$out/$name.txt" >>"$out/figures.tsv.new"
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
		--scheduler-set low_batch_kb=0 --scheduler-set normal_loss=0 --charts "$out/$model-timeline" --beside "$guest/timeline.csv" >"$out/$model-timeline.txt"
	for normal in $normals; do
		job_of "$normal" >"$work/job.toml"
		sweep idle_dispatch_interval "$intervals" "$seconds" "$model-$normal" "$guest/sweep-$normal.csv" \
			--scheduler-set low_batch_kb=0 --scheduler-set normal_loss=0
		[ -z "$(batches_of "$model")" ] || sweep low_batch_kb "$(batches_of "$model")" "$batch_seconds" \
			"$model-$normal-batch" "$guest/batch-$normal.csv"
	done
done
{
	printf 'model\tnormal\tknob\tvalue\tfigure\tsimulated\tmeasured\tratio\n'
	cat "$out/figures.tsv.new"
} >"$out/figures.tsv"
rm "$out/figures.tsv.new"
echo "figures: $out/figures.tsv and its charts" >&2
