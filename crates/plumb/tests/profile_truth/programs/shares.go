// SPDX-License-Identifier: Apache-2.0 OR MIT

// shares.c in Go.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"
)

const (
	process = 2
	thread  = 3
	round   = 100_000_000
)

func cpu(clock uintptr) uint64 {
	var time syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&time)), 0)
	return uint64(time.Nano())
}

var sink uint64 = 1

//go:noinline
func heavy(until uint64) uint64 {
	for {
		x := sink
		for i := 0; i < 40000; i++ {
			x = x*6364136223846793005 + 1
		}
		sink = x
		if now := cpu(thread); now >= until {
			return now
		}
	}
}

//go:noinline
func medium(until uint64) uint64 {
	for {
		x := sink
		for i := 0; i < 40000; i++ {
			x = x*2862933555777941757 + 1
		}
		sink = x
		if now := cpu(thread); now >= until {
			return now
		}
	}
}

//go:noinline
func light(until uint64) uint64 {
	for {
		x := sink
		for i := 0; i < 40000; i++ {
			x = x*3202034522624059733 + 1
		}
		sink = x
		if now := cpu(thread); now >= until {
			return now
		}
	}
}

func main() {
	seconds, err := strconv.ParseFloat(os.Args[1], 64)
	if err != nil {
		panic(err)
	}
	runtime.LockOSThread() // the clock is this thread's
	var spent, due [3]uint64
	share := [3]uint64{70, 20, 10}
	work := [3]func(uint64) uint64{heavy, medium, light}
	now := cpu(thread)
	for n := 0; n < int(seconds*1e9/round); n++ {
		for i := range work {
			begin := now
			due[i] += round * share[i] / 100
			now = work[i](begin + due[i] - spent[i])
			spent[i] += now - begin
		}
	}
	truth := fmt.Sprintf("heavy %d\nmedium %d\nlight %d\nall %d\n", spent[0], spent[1], spent[2], cpu(process))
	if err := os.WriteFile(os.Args[2], []byte(truth), 0o644); err != nil {
		panic(err)
	}
}
