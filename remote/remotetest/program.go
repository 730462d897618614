package remotetest

import (
	"os"
	"syscall"
	"testing"
)

// Program writes a program that a test runs afterwards. The kernel refuses to run
// what is open for writing ("text file busy"), and a child that another test starts
// meanwhile would hold it open: none is started while it is written.
func Program(t testing.TB, path, text string) {
	t.Helper()
	syscall.ForkLock.RLock()
	err := os.WriteFile(path, []byte(text), 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
}
