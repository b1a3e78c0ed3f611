# SPDX-License-Identifier: Apache-2.0 OR MIT
# cells.tsv of table.sh as Markdown: awk -f table.awk cells.tsv. First what normal work keeps of its operations under each
# scheduler; what the low job has, in MB/s, and of lp-deadline what part of what the disk has left that is, all from least to
# most of the kernels; then, where there is a control, what normal work keeps there, and of what it has there; then each cell.
BEGIN { FS = "\t" }
{
	key = $1 SUBSEP $2
	if (!(key in seen)) {
		seen[key] = 1
		keys[++n] = key
	}
	row = $3 SUBSEP $4
	if (!(row in way)) {
		way[row] = 1
		ways[++n_ways] = row
	}
	if (!((key, row) in rows)) {
		rows[key, row] = 1
		order[key, ++count[key]] = row
	}
	if (!((key, $5) in loads)) {
		loads[key, $5] = 1
		load[key, ++count_of_loads[key]] = $5
	}
	iops[key, row, $5, $6] = $7
	p50[key, row, $5, $6] = $8
	p99[key, row, $5, $6] = $9
	most[key, row, $5, $6] = $10
	low[key, row, $5, $6] = $11
	if ($6 == "low" && $11 > most_low[key, $5])
		most_low[key, $5] = $11
	if (!(($2, $5) in models)) {
		models[$2, $5] = 1
		lines[++n_lines] = $2 SUBSEP $5
	}
}
# What the low job would have of the disk in the time that normal requests leave: its own rate alone, behind the scheduler that
# gives it most, and of the HDD, where a lone request uses all of it, the part of normal's rate alone that is lost; of an SSD, the
# time of its 8 channels, or of sata's one, without normal requests.
function left(model, key, row, w,	used) {
	if (model == "hdd")
		used = iops[key, row, w, "both"] / iops[key, row, w, "normal"]
	else if (model == "sata")
		used = iops[key, row, w, "both"] * 90.8e-6
	else
		used = iops[key, row, w, "both"] * (model == "ssd4" ? 576e-6 : 144e-6) / 8
	return used < 0.995 ? most_low[key, w] * (1 - used) : 0
}
function to(least, most, form) {
	least = sprintf(form, least)
	most = sprintf(form, most)
	return least == most ? least : least ".." most
}
function extend(what, value) {
	if (!(("least", what) in range) || value < range["least", what])
		range["least", what] = value
	if (!(("most", what) in range) || value > range["most", what])
		range["most", what] = value
}
# Of one way to tell the low job from the normal one, over the kernels: fills range.
function over_kernels(row, model, w,	k, key, part, times, l) {
	delete range
	times = model == "ssd4" ? 4 : 1
	for (k = 1; k <= n; k++) {
		key = keys[k]
		split(key, part, SUBSEP)
		if (part[2] != model || !((key, row, w, "both") in iops))
			continue
		extend("kept", iops[key, row, w, "both"] * 100 / iops[key, row, w, "normal"])
		extend("low", low[key, row, w, "both"] * times)
		l = left(model, key, row, w)
		if (l)
			extend("part", low[key, row, w, "both"] * 100 / l)
	}
	return ("least", "kept") in range
}
function kept(row, model, w) {
	return over_kernels(row, model, w) ? to(range["least", "kept"], range["most", "kept"], "%.1f") : "-"
}
function had(row, model, w,	text) {
	if (!over_kernels(row, model, w))
		return "-"
	text = to(range["least", "low"], range["most", "low"], "%.1f")
	if (row ~ /^lp-deadline/ && ("least", "part") in range)
		text = text " (" to(range["least", "part"], range["most", "part"], "%.0f") " %)"
	return text
}
function table(what,	r, t, of, line, part) {
	printf "| %s |", what
	line = "|---|"
	for (r = 1; r <= n_ways; r++) {
		split(ways[r], of, SUBSEP)
		printf " %s |", of[2] == "none" ? of[1] : of[1] == "none" ? of[2] : of[1] " " of[2]
		line = line "---|"
	}
	print "\n" line
	for (t = 1; t <= n_lines; t++) {
		split(lines[t], part, SUBSEP)
		printf "| %s %s |", part[1], part[2]
		for (r = 1; r <= n_ways; r++)
			printf " %s |", what ~ /^normal/ ? kept(ways[r], part[1], part[2]) : had(ways[r], part[1], part[2])
		print ""
	}
}
# Of row, the rate beside the low one and that of the control, as parts of the normal job's alone, and the first of the second.
function control(row, model, w,	k, key, part, alone, both, other) {
	delete range
	for (k = 1; k <= n; k++) {
		key = keys[k]
		split(key, part, SUBSEP)
		if (part[2] != model || !((key, row, w, "control") in iops))
			continue
		alone = iops[key, row, w, "normal"]
		both = iops[key, row, w, "both"]
		other = iops[key, row, w, "control"]
		extend("kept", both * 100 / alone)
		extend("control", other * 100 / alone)
		extend("of", both * 100 / other)
	}
	if (!(("least", "kept") in range))
		return ""
	return to(range["least", "kept"], range["most", "kept"], "%.1f") " % | " to(range["least", "control"], range["most", "control"], "%.1f") \
		" % | " to(range["least", "of"], range["most", "of"], "%.1f") " %"
}
function ms(us) { return us == "" ? "-" : sprintf("%.2f", us / 1000) }
END {
	table("normal keeps, %")
	print ""
	table("low has, MB/s")
	for (t = 1; t <= n_lines; t++) {
		split(lines[t], part, SUBSEP)
		a = control("mq-deadline" SUBSEP "idle", part[1], part[2])
		b = control("lp-deadline" SUBSEP "idle", part[1], part[2])
		if (a b == "")
			continue
		if (!controls++) {
			print "\n| disk, load | mq-deadline idle: beside | control | beside, of control | lp-deadline: beside | control | beside, of control |"
			print "|---|---|---|---|---|---|---|"
		}
		printf "| %s %s | %s | %s |\n", part[1], part[2], a == "" ? "- | - | -" : a, b == "" ? "- | - | -" : b
	}
	for (k = 1; k <= n; k++) {
		key = keys[k]
		split(key, part, SUBSEP)
		printf "\n### %s, %s model\n", part[1], part[2]
		for (t = 1; t <= count_of_loads[key]; t++) {
			w = load[key, t]
			printf "\n%s:\n\n", w
			print "| scheduler | low by | normal alone, iops | beside, iops | change | p50 ms | p99 ms | most ms | low alone, MB/s | beside, MB/s |"
			print "|---|---|---|---|---|---|---|---|---|---|"
			for (r = 1; r <= count[key]; r++) {
				row = order[key, r]
				split(row, of, SUBSEP)
				a = iops[key, row, w, "normal"]
				b = iops[key, row, w, "both"]
				printf "| %s | %s | %s | %s | %s | %s to %s | %s to %s | %s to %s | %s | %s |\n", of[1], of[2], a, b, \
					a && b != "" ? sprintf("%+.1f %%", (b - a) * 100 / a) : "-", ms(p50[key, row, w, "normal"]), ms(p50[key, row, w, "both"]), \
					ms(p99[key, row, w, "normal"]), ms(p99[key, row, w, "both"]), ms(most[key, row, w, "normal"]), \
					ms(most[key, row, w, "both"]), low[key, row, w, "low"], low[key, row, w, "both"]
			}
		}
	}
}
