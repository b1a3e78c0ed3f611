# SPDX-License-Identifier: Apache-2.0 OR MIT
# cells.tsv of database.sh as Markdown: awk -f database.awk cells.tsv
BEGIN { FS = "\t" }
{
	table = $1 SUBSEP $2 SUBSEP $3 SUBSEP $4
	if (!(table in seen)) {
		seen[table] = 1
		tables[++n] = table
	}
	if ($7 == "alone") {
		tps[table, $5, "alone"] = $8
		p50[table, $5, "alone"] = $9
		p99[table, $5, "alone"] = $10
		next
	}
	row = $5 SUBSEP $6
	if (!((table, row) in rows)) {
		rows[table, row] = 1
		order[table, ++count[table]] = row
	}
	tps[table, row, $7] = $8
	p50[table, row, $7] = $9
	p99[table, row, $7] = $10
	low[table, row, $7] = $11
	busy[table, row, $7] = $12
}
function ms(us) { return us == "" ? "-" : sprintf("%.1f", us / 1000) }
function number(x) { return x == "" ? "-" : sprintf("%.1f", x) }
function change(from, to) { return from == "" || to == "" || !from ? "-" : sprintf("%+.1f %%", (to - from) * 100 / from) }
END {
	for (t = 1; t <= n; t++) {
		table = tables[t]
		split(table, part, SUBSEP)
		printf "\n### %s, %s model, %s, clients: %s\n\n", part[1], part[2], part[3], part[4]
		print "| scheduler | reader's class | alone, tps | control, tps | mixed, tps | mixed to alone | mixed to control | p50 ms, alone, control, mixed | p99 ms, alone, control, mixed | reader, MB/s (control) | CPU % |"
		print "|---|---|---|---|---|---|---|---|---|---|---|"
		for (r = 1; r <= count[table]; r++) {
			row = order[table, r]
			split(row, of, SUBSEP)
			a = tps[table, of[1], "alone"]
			c = tps[table, row, "control"]
			m = tps[table, row, "mixed"]
			printf "| %s | %s | %s | %s | %s | %s | %s | %s, %s, %s | %s, %s, %s | %s (%s) | %s |\n", of[1], of[2], number(a), number(c), number(m), \
				change(a, m), change(c, m), ms(p50[table, of[1], "alone"]), ms(p50[table, row, "control"]), \
				ms(p50[table, row, "mixed"]), ms(p99[table, of[1], "alone"]), ms(p99[table, row, "control"]), \
				ms(p99[table, row, "mixed"]), number(low[table, row, "mixed"]), number(low[table, row, "control"]), busy[table, row, "mixed"]
		}
	}
}
