# SPDX-License-Identifier: Apache-2.0 OR MIT
# shellcheck shell=bash
# What passed, in the words that the test run counts; $name is what is being tried.

passed=0 failed=0
ok() {
	echo "ok   $name: $*"
	passed=$((passed + 1))
}
bad() {
	echo "FAIL $name: $*"
	failed=$((failed + 1))
}
skip() {
	echo "SKIP $name: $*"
}
finish() {
	local verdict=ok
	[ "$failed" -eq 0 ] || verdict=FAILED
	echo "test result: $verdict. $passed passed; $failed failed"
	[ "$failed" -eq 0 ]
}
