package config

import (
	"strings"
	"testing"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

func TestUnattended(t *testing.T) {
	c, err := Parse([]byte(`
on_finding = "tell"
on_finding_from = "warning"
on_finding_pause = "5m"
[record]
dir = "/var/runs"
file_mb = 10
[node.gpu7]
on_finding = "tell gpu7"
[node.gpu7.thresholds]
hung_s = 90
[node.demo]
on_finding = "tell demo"
thresholds.hung_s = 70
[node."demo:hang"]
thresholds.hung_s = 80
`))
	if err != nil {
		t.Fatal(err)
	}
	if n := c.NotifyFor("gpu7"); n.Command != "tell gpu7" || n.From != metrics.SeverityWarning || n.Pause != 5*time.Minute {
		t.Errorf("gpu7: %+v", n)
	}
	if n := c.NotifyFor("demo:oom"); n.Command != "tell demo" {
		t.Errorf("demo:oom: %+v", n)
	}
	if h := c.ForNode("demo:oom").Thresholds["hung_s"]; h != 70 {
		t.Errorf("hung_s of demo:oom is %g, want demo's", h)
	}
	if h := c.ForNode("demo:hang").Thresholds["hung_s"]; h != 80 {
		t.Errorf("hung_s of demo:hang is %g, want its own", h)
	}
	if n := c.NotifyFor("other"); n.Command != "tell" {
		t.Errorf("other: %+v", n)
	}
	if n := (Config{}).NotifyFor("x"); n.Command != "" || n.From != metrics.SeverityCritical || n.Pause != 30*time.Second {
		t.Errorf("without a configuration: %+v", n)
	}
	if r := c.Record.Rotation(); r.Dir != "/var/runs" || r.FileSize != 10e6 || r.Total != 1024e6 || r.FileAge != 24*time.Hour || r.MaxAge != 14*24*time.Hour {
		t.Errorf("rotation %+v", r)
	}
}

func TestUnattendedErrors(t *testing.T) {
	for text, want := range map[string]string{
		"[node.x.thresholds]\nheadroom_warning_gb = 5": `"headroom_warning_gib" meant`,
		"on_finding_from = \"loud\"":                   "info, warning, critical",
		"[record]\ndir = \"x\"\nfile_mb = 900":         "room for two files",
		"[record]\ndir = \"x\"\nmax_age = \"-1h\"":     "below 0",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
