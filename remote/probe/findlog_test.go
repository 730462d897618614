package probe

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestFindLog(t *testing.T) { findsLogs(t, newLocalNode(t)) }

func findsLogs(t *testing.T, n *localNode) {
	dir := t.TempDir()
	n.env = append(n.env, "HOME="+dir)
	p, ctx := fileWorker(t, n).p, context.Background()
	write(t, dir+"/runs/old one.log", "x\n")
	write(t, dir+"/runs/new.log", "x\n")
	write(t, dir+"/runs/notes.txt", "x\n")
	if err := os.Mkdir(dir+"/bare", 0o755); err != nil {
		t.Fatal(err)
	}
	past := time.Now().Add(-time.Hour)
	if err := os.Chtimes(dir+"/runs/old one.log", past, past); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(write(t, dir+"/empty.log", ""), past, past); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(dir+"/pipe", 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/proc/meminfo", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	empty := dir + "/empty.log"
	write(t, dir+"/home.log", "x\n")
	for name, want := range map[string]LogFile{
		"~":                   {Newest: []string{dir + "/home.log", dir + "/empty.log"}},
		"~/":                  {Newest: []string{dir + "/home.log", dir + "/empty.log"}},
		empty:                 {Path: empty},
		"~/empty.log":         {Path: empty},
		dir + "/x/../pipe.x":  {Path: dir + "/pipe.x", Missing: true},
		dir + "/runs/new.log": {Path: dir + "/runs/new.log"},
		"~/runs":              {Newest: []string{dir + "/runs/new.log", dir + "/runs/old one.log"}},
		dir + "/runs/":        {Newest: []string{dir + "/runs/new.log", dir + "/runs/old one.log"}},
	} {
		got, err := p.FindLog(ctx, name)
		if err != nil || got.Path != want.Path || got.Missing != want.Missing || !slices.Equal(got.Newest, want.Newest) {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, want)
		}
	}
	for name, want := range map[string]string{
		"run/server.log":             "write the whole path, as /data/run/server.log or ~/run/server.log",
		"a\nb":                       "cannot be sent",
		"/proc/meminfo":              "/proc/meminfo is made by the kernel when it is read: it has no size",
		"~/link":                     dir + "/link is made by the kernel",
		"/dev/zero":                  "/dev/zero is a device: it has no size",
		"~/pipe":                     dir + "/pipe is a pipe: it has no size",
		dir + "/none/of/it":          "the node has no folder " + dir + "/none/of",
		"~/bare":                     "without any *.log",
		empty + "/under.log":         "not a directory",
		"~/$(touch " + dir + "/ran)": "cannot be there",
	} {
		if got, err := p.FindLog(ctx, name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v; want %q", name, got, err, want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
		t.Error("a path was run as a command")
	}
}
