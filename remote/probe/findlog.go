package probe

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/runvigil/runvigil/metrics"
)

// LogFile is what a person's name for a log means on the node.
type LogFile struct {
	Path    string // whole; empty where there is nothing to follow
	Missing bool   // it may come yet: its folder is there
	// Newest are logs of a folder that was named, the newest first.
	Newest []string
}

// madeByKernel are file systems whose files have no size: what they hold is made
// when they are read.
var madeByKernel = []string{"proc", "sysfs", "tracefs", "debugfs", "cgroupfs", "cgroup2fs"}

// FindLog tells which file a name means, where ~/ is the login's home, and says
// why that one cannot be followed as a log.
func (p *Probe) FindLog(ctx context.Context, name string) (LogFile, error) {
	home := name == "~" || strings.HasPrefix(name, "~/")
	switch {
	case !sendable(name):
		return LogFile{}, fmt.Errorf("%q cannot be sent to the node", name)
	case !home && !path.IsAbs(name):
		return LogFile{}, fmt.Errorf("%s stands in no folder of the node; write the whole path, as /data/%s or ~/%s", name, name, name)
	}
	file := quote(path.Clean(name))
	if home {
		file = `"$HOME"` + quote(strings.TrimSuffix(path.Clean("/"+name[1:]), "/"))
	}
	a, err := p.files.call(ctx, "(f="+file+`; printf '%s\n' "$f"; [ -r "$f" ] && echo r || echo -; stat -L -f -c %T -- "$f" 2>/dev/null || echo -; `+
		`stat -L -c '%d:%i %s %Y %f %n' -- "$f" 2>&1; [ -d "${f%/*}/" ] && echo d || echo -; [ -d "$f" ] && ls -dt -- "$f"/*.log 2>/dev/null | head -n 20)`)
	if err != nil {
		return LogFile{}, fmt.Errorf("look at %s: %w", name, err)
	}
	lines := strings.Split(strings.TrimRight(string(a.data), "\n"), "\n")
	if len(lines) < 5 {
		return LogFile{}, fmt.Errorf("look at %s: the node's answer was cut", name)
	}
	whole := lines[0]
	st, there := parseStatLine(lines[3])
	switch {
	case !path.IsAbs(whole):
		return LogFile{}, fmt.Errorf("this login has no home folder on the node; write the whole path, as /data/%s", path.Base(name))
	case !there:
		if reason := statError(lines[3:4], whole); reason != "" {
			return LogFile{}, fmt.Errorf("%s cannot be read: %s", whole, reason)
		}
		if lines[4] != "d" {
			return LogFile{}, fmt.Errorf("%s cannot be there: the node has no folder %s", whole, path.Dir(whole))
		}
		return LogFile{Path: whole, Missing: true}, nil
	case st.Dir:
		newest := lines[5:]
		for i, l := range newest {
			newest[i] = metrics.Clean(l, 400)
		}
		if len(newest) == 0 {
			return LogFile{}, fmt.Errorf("%s is a folder without any *.log; name a file in it", whole)
		}
		return LogFile{Newest: newest}, nil
	case st.Err != "":
		return LogFile{}, fmt.Errorf("%s %s: it has no size and cannot be followed as a log; `s` opens a shell", whole, st.Err)
	case slices.Contains(madeByKernel, lines[2]):
		return LogFile{}, fmt.Errorf("%s is made by the kernel when it is read: it has no size and cannot be followed as a log; `s` opens a shell", whole)
	case lines[1] != "r":
		return LogFile{}, fmt.Errorf("this login may not read %s", whole)
	}
	return LogFile{Path: whole}, nil
}
