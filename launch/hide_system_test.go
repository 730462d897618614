//go:build system && linux

package launch

import (
	"os/exec"
	"testing"
)

// TestSystemEveryAwk: what hides secrets on a node was tried with every awk that a
// node may have, which the other tests of it do where one is installed.
func TestSystemEveryAwk(t *testing.T) {
	for _, name := range []string{"busybox", "mawk", "gawk", "original-awk"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Errorf("%v: install it", err)
		}
	}
}
