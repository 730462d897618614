package simnode

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/runvigil/runvigil/remote/simnode/model"
)

// hostEvery is how often the host's figures are renewed.
const hostEvery = time.Second

// clockTicks is how many parts of a second /proc counts in, on every Linux.
const clockTicks = 100

// hostFiles are the files that show the model's host instead of this
// machine, where a mount namespace of the node's own allows it: a server that
// pins 384 GB would otherwise stand on a laptop.
type hostFiles struct {
	meminfo, loadavg, stat *os.File
	renewed                time.Time

	booted time.Time // this machine, from which all its processes count
	busy   float64   // all processors since then, in seconds
	rest   string    // of this machine's /proc/stat, without its processors
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
	here, err := os.ReadFile("/proc/stat")
	if err != nil {
		return nil
	}
	files := &hostFiles{booted: time.Now()}
	for line := range strings.Lines(string(here)) {
		var boot int64
		if strings.HasPrefix(line, "cpu") {
			continue
		}
		files.rest += line
		if n, _ := fmt.Sscanf(line, "btime %d", &boot); n == 1 {
			files.booted = time.Unix(boot, 0)
		}
	}
	for name, f := range map[string]**os.File{"meminfo": &files.meminfo, "loadavg": &files.loadavg, "stat": &files.stat} {
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
	for _, f := range []*os.File{files.meminfo, files.loadavg, files.stat} {
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
	since := f.renewed
	if since.IsZero() {
		since = f.booted
	}
	f.busy += h.CPUUtil * float64(h.CPUs) * now.Sub(since).Seconds()
	f.renewed = now
	rewrite(f.stat, stat(h.CPUs, f.busy, now.Sub(f.booted).Seconds(), f.rest))
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

// stat is /proc/stat of a number of processors, of which all are busy alike.
// busy and up are seconds since boot, busy those of all processors.
func stat(cpus int, busy, up float64, rest string) string {
	var text strings.Builder
	row := func(name string, busy, up float64) {
		user := int64(busy * clockTicks * 0.85)
		fmt.Fprintf(&text, "%-6s %12d 0 %12d %12d 0 0 0 0 0 0\n", name, user, int64(busy*clockTicks)-user, int64((up-busy)*clockTicks))
	}
	row("cpu", busy, up*float64(cpus))
	for i := range cpus {
		row("cpu"+strconv.Itoa(i), busy/float64(cpus), up)
	}
	return text.String() + rest
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
