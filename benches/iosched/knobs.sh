#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# benches/iosched/knobs.sh OUT: what each of lp-deadline's knobs does that no other bench varies: simulated sweeps, on the
# guests' models of an HDD and of flash (hdd.toml, ssd.toml) and on one of a SATA disk (intel330). Writes OUT/knobs.tsv.
# KNOBS="low_slots ..." narrows it; PLUMB=target/debug/plumb is the program.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
plumb=$(realpath "${PLUMB:-$here/../../target/debug/plumb}")
out=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"

# Foreground has the second half of the disk, background (--idle=2) the first.
job_of() { # LOAD
	printf 'size = "512M"\n[[step]]\noffset = "256M"\nwhat = "read"\norder = "random"\nblock = "4K"\n'
	case $1 in
	think*) printf 'think = "%sms"\n' "${1#think}" ;;
	# All of the scheduler's tags are taken: 64.
	tags) echo 'depth = 16' ;;
	*) echo 'depth = 32' ;;
	esac
	case $1 in
	tags) printf '[[step.also]]\nwhat = "read"\nsize = "256M"\nblock = "128K"\ndepth = 128\n' ;;
	writes) printf '[[step.also]]\nwhat = "read"\nsize = "256M"\nblock = "128K"\nthink = "100ms"\n' ;;
	*) printf '[[step.also]]\nwhat = "read"\nsize = "256M"\nblock = "128K"\ndepth = 32\n' ;;
	esac
	[ "$1" != writes ] ||
		printf '[[step.also]]\nwhat = "write"\norder = "random"\nsize = "512M"\nblock = "4K"\ndepth = 32\nseed = 7\n'
}

sweep() { # KNOB VALUES MODEL LOAD [OPTION...]
	local knob=$1 values=$2 model=$3 load=$4 depth=32
	shift 4
	[[ " ${KNOBS:-$knob} " == *" $knob "* ]] || return 0
	rm -rf "$work/charts"
	job_of "$load" >"$work/job.toml"
	# A queue in the disk would put them in its own order.
	[ "$load" != writes ] || depth=1
	[ ! -e "$here/$model.toml" ] || model=$here/$model.toml
	"$plumb" sim "$model" --disk-size 512M --job "$work/job.toml" --idle=2 --scheduler lp-deadline --nr-requests 64 --depth-of-device $depth \
		--max-request 128K --time 60s --sweep "$knob=$values" "$@" --charts "$work/charts" >"$work/said"
	model=$(basename "$model" .toml)
	tail -n +2 "$work/charts/sweep.csv" | awk -F, -v OFS='\t' -v knob="$knob" -v model="$model" -v load="$load" \
		'{ print knob, model, load, $1, $2, $5 / 1e6, $6 / 1e6, $8, $9 / 1e6, $10 / 1e6 }' >>"$out/knobs.tsv"
	echo "knobs: $knob, $model, $load" >&2
}

printf 'knob\tmodel\tload\tvalue\tforeground_per_s\tforeground_p99_ms\tforeground_max_ms\tbackground_mib_per_s\tbackground_p99_ms\tbackground_max_ms\n' \
	>"$out/knobs.tsv"
sweep idle_dispatch_interval 400000,750000,1500000,3000000 hdd think10
sweep idle_dispatch_interval 100,200,400,800,1600 ssd think1
sweep batch_mode_delay 1000,20000,1000000,5000000 hdd think10
sweep normal_loss 0,1,2,4,8 intel330 think1
sweep normal_loss 0,1,2,4,8 hdd think10
sweep low_depth 1,2,4,6,16,0 ssd think1
sweep low_depth 1,2,4,6,16,0 intel330 think10
sweep low_depth 1,2,6 hdd think10
sweep low_batch_kb 0,512,2048,5120 hdd think10
sweep low_batch_time 0,20000,60000,120000 hdd think10
sweep low_expire 0,1000,5000,10000 hdd steady
sweep low_slots 10,25,50,75,100 hdd tags
sweep low_slots 10,25,50,75,100 ssd tags
sweep in_flight_aware 0,1 hdd think0
sweep in_flight_aware 0,1 ssd think0
sweep in_flight_aware 0,1 intel330 think0
sweep read_expire 50,500,5000 hdd writes
sweep write_expire 500,5000,50000 hdd writes
sweep writes_starved 0,2,8 hdd writes
sweep fifo_batch 1,4,16,64 hdd writes
