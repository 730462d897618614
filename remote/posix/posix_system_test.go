//go:build system

package posix

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestShells lets real shells read every awkward word, as arguments and as
// values of the environment.
func TestShells(t *testing.T) {
	for _, shell := range [][]string{{"dash"}, {"bash", "--posix"}, {"bash"}, {"busybox", "ash"}, {"zsh"}} {
		t.Run(strings.Join(shell, " "), func(t *testing.T) {
			line, err := Join(append([]string{"printf", `%s\0`}, awkward...))
			if err != nil {
				t.Fatal(err)
			}
			if got := run(t, shell, line+"\n"); !slices.Equal(got, awkward) {
				t.Errorf("arguments came back as %q", got)
			}
			var script strings.Builder
			for _, v := range awkward {
				e, err := Export("RV_VALUE", v)
				if err != nil {
					t.Fatal(err)
				}
				script.WriteString(e + "\nprintf '%s\\0' \"$RV_VALUE\"\n")
			}
			if got := run(t, shell, script.String()); !slices.Equal(got, awkward) {
				t.Errorf("values came back as %q", got)
			}
		})
	}
}

func run(t *testing.T, shell []string, script string) []string {
	t.Helper()
	cmd := exec.Command(shell[0], shell[1:]...)
	cmd.Stdin = strings.NewReader(script)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v", shell, err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}
