# SPDX-License-Identifier: Apache-2.0 OR MIT
# cells.tsv of table.sh as Markdown: awk -f table.awk cells.tsv
BEGIN { FS = "\t" }
{
	key = $1 SUBSEP $2
	if (!(key in seen)) {
		seen[key] = 1
		keys[++n] = key
	}
	row = $3 SUBSEP $4
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
}
function ms(us) { return us == "" ? "-" : sprintf("%.2f", us / 1000) }
END {
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
					a && b != "" ? sprintf("%+.0f %%", (b - a) * 100 / a) : "-", ms(p50[key, row, w, "normal"]), ms(p50[key, row, w, "both"]), \
					ms(p99[key, row, w, "normal"]), ms(p99[key, row, w, "both"]), ms(most[key, row, w, "normal"]), \
					ms(most[key, row, w, "both"]), low[key, row, w, "low"], low[key, row, w, "both"]
			}
		}
	}
}
