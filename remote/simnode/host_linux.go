package simnode

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/runvigil/runvigil/remote/simnode/model"
)

// hostEvery is how often the host's figures are renewed.
const hostEvery = time.Second

// hostFiles are the files that show the model's host instead of this
// machine, where a mount namespace of the node's own allows it: a server that
// pins 384 GB would otherwise stand on a laptop.
type hostFiles struct {
	meminfo, loadavg *os.File
	renewed          time.Time
}

// mountNamespace names the mount namespace of this process, "" unknown.
func mountNamespace() string {
	name, _ := os.Readlink("/proc/self/ns/mnt")
	return name
}

// coverHost lays the model's host over /proc; nil when that is not allowed. In
// the mount namespace of whoever started the node it must not even try: the
// whole machine would see it.
func coverHost(p places, h model.Host, starters string) *hostFiles {
	if own := mountNamespace(); own == "" || starters == "" || own == starters {
		return nil
	}
	files := &hostFiles{}
	for name, f := range map[string]**os.File{"meminfo": &files.meminfo, "loadavg": &files.loadavg} {
		path := filepath.Join(p.dir, "run", name)
		created, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			return nil
		}
		*f = created
	}
	files.renew(h, time.Now())
	// The model has no memory limits; this machine's must not be taken for its.
	empty := filepath.Join(p.dir, "run", "cgroup")
	if os.MkdirAll(empty, 0o755) != nil {
		return nil
	}
	if err := unix.Mount(empty, "/sys/fs/cgroup", "", unix.MS_BIND, ""); err != nil && !errors.Is(err, unix.ENOENT) {
		return nil
	}
	for _, f := range []*os.File{files.meminfo, files.loadavg} {
		if unix.Mount(f.Name(), filepath.Join("/proc", filepath.Base(f.Name())), "", unix.MS_BIND, "") != nil {
			return nil
		}
	}
	return files
}

// renew writes the figures, at most once in hostEvery.
func (f *hostFiles) renew(h model.Host, now time.Time) {
	if f == nil || now.Sub(f.renewed) < hostEvery {
		return
	}
	f.renewed = now
	rewrite(f.meminfo, meminfo(h))
	rewrite(f.loadavg, fmt.Sprintf("%.2f %.2f %.2f 3/2275 %d\n", h.Load[0], h.Load[1], h.Load[2], os.Getpid()))
}

// rewrite replaces the text in place: the mount holds on to the file itself.
// The text hardly ever changes its length, so readers see it old or new.
func rewrite(f *os.File, text string) {
	if _, err := f.WriteAt([]byte(text), 0); err != nil {
		return
	}
	if info, err := f.Stat(); err == nil && info.Size() > int64(len(text)) {
		_ = f.Truncate(int64(len(text)))
	}
}

func meminfo(h model.Host) string {
	var text string
	for _, line := range []struct {
		name  string
		bytes int64
	}{
		{"MemTotal", h.MemTotal}, {"MemFree", h.MemFree}, {"MemAvailable", h.MemAvailable},
		{"Buffers", h.Buffers}, {"Cached", h.Cached}, {"SwapCached", 0},
		{"Unevictable", h.Pinned}, {"Mlocked", h.Pinned},
		{"SwapTotal", h.SwapTotal}, {"SwapFree", h.SwapFree}, {"Shmem", h.Shmem},
	} {
		text += fmt.Sprintf("%-16s%10d kB\n", line.name+":", line.bytes/1024)
	}
	return text
}
