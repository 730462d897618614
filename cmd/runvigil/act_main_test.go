package main

import (
	"os"
	"testing"

	"github.com/runvigil/runvigil/remote/simnode"
)

// TestMain lets this binary play the processes of the simulated node.
func TestMain(m *testing.M) {
	if handled, code := simnode.Main(os.Args); handled {
		os.Exit(code)
	}
	os.Exit(m.Run())
}
