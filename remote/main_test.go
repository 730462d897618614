package remote

import (
	"net"
	"os"
	"sync"
	"testing"
)

func TestMain(m *testing.M) {
	if handled, code := AskpassMain(os.Args[1:]); handled {
		os.Exit(code)
	}
	os.Exit(m.Run())
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
