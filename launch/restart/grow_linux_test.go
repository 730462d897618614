package restart

import (
	"os/exec"
	"strings"
	"testing"
)

// TestGrow: what belongs to a tree is told by numbers, which the kernel gives
// again: each line of the table is pid, parent, group, session and start.
func TestGrow(t *testing.T) {
	for _, c := range []struct {
		name, tree, grown, table, want string
	}{
		{"children and theirs", "10:1", "", "10 1 10 10 1\n11 10 10 10 2\n12 11 12 12 3\n90 1 90 90 1", "10:1 11:2 12:3"},
		{"whoever lives in its session", "10:1", "", "10 1 10 10 1\n20 1 15 10 9\n21 1 10 21 9\n", "10:1 20:9 21:9"},
		{"orphans of one that has died since the last look", "10:1 11:2", "10:1 11:2", "12 1 10 10 3\n13 12 13 13 4", "10:1 11:2 12:3 13:4"},
		{"a number that another process has now", "10:1", "10:1", "10 1 10 10 50\n11 10 10 10 51", "10:1"},
		{"a number of long ago, as somebody's session whose leader is gone", "10:1 11:2", "10:1", "10 1 10 10 1\n30 1 11 11 60", "10:1 11:2"},
		{"never the first process, never itself", "10:1", "", "10 1 10 10 1\n1 0 10 10 0", "10:1"},
	} {
		for _, sh := range shells(t) {
			text, err := parts.ReadFile("sh/tree.sh")
			if err != nil {
				t.Fatal(err)
			}
			program := "NL='\n'\n" + string(text) + "\nsnap() { SNAP=\"$TABLE$NL\"; }\nTREE=\" $1 \" GROWN=\"$2\"\ngrow\necho $TREE\n"
			argv := append(strings.Fields(sh), "-c", program, "sh", c.tree, c.grown)
			cmd := exec.Command(argv[0], argv[1:]...)
			cmd.Env = []string{"TABLE=" + c.table, "PATH=/usr/bin:/bin"}
			out, err := cmd.CombinedOutput()
			if got := strings.TrimSpace(string(out)); err != nil || got != c.want {
				t.Errorf("%s under %s: %q %v, want %q", c.name, sh, got, err, c.want)
			}
		}
	}
}
