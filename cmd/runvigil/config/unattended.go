package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// Record says where a watcher keeps what it learns, and how much of it.
type Record struct {
	Dir     string   `toml:"dir"`      // "" records nothing
	FileMB  int64    `toml:"file_mb"`  // a new file begins at this size; 0 is 64
	FileAge Duration `toml:"file_age"` // or at this age; 0 is 24h
	TotalMB int64    `toml:"total_mb"` // of a node's files, the oldest go first; 0 is 1024
	MaxAge  Duration `toml:"max_age"`  // older files go; 0 is 336h (14 days)
}

func (r Record) check() error {
	if r.FileMB < 0 || r.TotalMB < 0 || r.FileAge < 0 || r.MaxAge < 0 {
		return fmt.Errorf("[record] has a size or an age below 0; leave it out for its default")
	}
	if f, t := r.limits(); t < 2*f {
		return fmt.Errorf("[record] keeps %d MB in all with files of %d MB; it needs room for two files", t, f)
	}
	return nil
}

func (r Record) limits() (fileMB, totalMB int64) {
	fileMB, totalMB = r.FileMB, r.TotalMB
	if fileMB == 0 {
		fileMB = 64
	}
	if totalMB == 0 {
		totalMB = 1024
	}
	return fileMB, totalMB
}

// Rotation is Record with its defaults filled in. Sizes in bytes.
type Rotation struct {
	Dir             string
	FileSize, Total int64
	FileAge, MaxAge time.Duration
}

// Rotation gives the limits; an empty Dir says that nothing is recorded.
func (r Record) Rotation() Rotation {
	fileMB, totalMB := r.limits()
	out := Rotation{Dir: r.Dir, FileSize: fileMB * 1e6, Total: totalMB * 1e6, FileAge: time.Duration(r.FileAge), MaxAge: time.Duration(r.MaxAge)}
	if rest, ok := strings.CutPrefix(out.Dir, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			out.Dir = filepath.Join(home, rest)
		}
	}
	if out.FileAge == 0 {
		out.FileAge = 24 * time.Hour
	}
	if out.MaxAge == 0 {
		out.MaxAge = 14 * 24 * time.Hour
	}
	return out
}

// Notify is the command for new findings of one node.
type Notify struct {
	Command string // "" runs nothing
	From    metrics.Severity
	Pause   time.Duration
}

// NotifyFor gives what to run for a node.
func (c Config) NotifyFor(name string) Notify {
	out := Notify{Command: c.OnFinding, From: metrics.SeverityCritical, Pause: time.Duration(c.OnFindingPause)}
	if own := c.node(name).OnFinding; own != "" {
		out.Command = own
	}
	switch c.OnFindingFrom {
	case "info":
		out.From = metrics.SeverityInfo
	case "warning":
		out.From = metrics.SeverityWarning
	}
	if out.Pause <= 0 {
		out.Pause = 30 * time.Second
	}
	return out
}
