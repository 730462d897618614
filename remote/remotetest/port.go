package remotetest

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
)

// given are the ports that FreePort has given out.
var given sync.Map

// FreePort is a TCP port of the loopback address that is free and given out once.
// It is below the range from which the kernel takes ports for connections, and a
// port that another test was given is not even tried: who waits for a server of
// his own would talk to the listener that tries it.
func FreePort(t testing.TB) int {
	t.Helper()
	for range 1000 {
		port := 10000 + rand.IntN(10000)
		if _, taken := given.LoadOrStore(port, true); taken {
			continue
		}
		if l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port)); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("1000 ports between 10000 and 20000 were taken")
	return 0
}
