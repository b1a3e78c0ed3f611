// SPDX-License-Identifier: Apache-2.0 OR MIT
// Users of chat rooms, as `plumb load --what serve --room` has them: a goroutine for each connection and direction.
// chat PORT USERS MESSAGES BYTES: each user sends a message when its last one has come back. Prints how many did.
package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
)

func user(port string, name uint64, messages, bytes int, back *atomic.Int64) error {
	connection, err := net.Dial("tcp", "127.0.0.1:"+port)
	if err != nil {
		return err
	}
	defer connection.Close()
	returned, failed := make(chan bool), make(chan error, 1)
	go func() {
		message := make([]byte, bytes)
		for {
			if _, err := io.ReadFull(connection, message); err != nil {
				failed <- err
				return
			}
			if binary.LittleEndian.Uint64(message) == name {
				returned <- true
			}
		}
	}()
	message := make([]byte, bytes)
	binary.LittleEndian.PutUint64(message, name)
	for i := 0; i < messages; i++ {
		if _, err := connection.Write(message); err != nil {
			return err
		}
		select {
		case <-returned:
			back.Add(1)
		case err := <-failed:
			return err
		}
	}
	return nil
}

func main() {
	numbers := make([]int, 3)
	for i := range numbers {
		numbers[i], _ = strconv.Atoi(os.Args[i+2])
	}
	var all sync.WaitGroup
	var back atomic.Int64
	for i := 0; i < numbers[0]; i++ {
		all.Add(1)
		go func(name uint64) {
			defer all.Done()
			if err := user(os.Args[1], name, numbers[1], numbers[2], &back); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}(uint64(i) + 1)
	}
	all.Wait()
	fmt.Println(back.Load())
}
