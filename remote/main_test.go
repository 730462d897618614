package remote

import (
	"io"
	"net"
	"os"
	"sync"
	"testing"
)

// relayEnv makes this program a ProxyCommand to the address it holds.
const relayEnv = "RUNVIGIL_TEST_RELAY"

func TestMain(m *testing.M) {
	if handled, code := AskpassMain(os.Args); handled {
		os.Exit(code)
	}
	if addr := os.Getenv(relayEnv); addr != "" {
		relay(addr)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func relay(addr string) {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	go io.Copy(nc, os.Stdin)
	io.Copy(os.Stdout, nc)
}

// silentPeer accepts connections and never says a word.
func silentPeer(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var held []net.Conn
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			held = append(held, c)
			mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
		for _, c := range held {
			c.Close()
		}
	})
	return l.Addr().String()
}
