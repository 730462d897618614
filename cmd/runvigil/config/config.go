// Package config reads the user's configuration file.
package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/adrg/xdg"
	"github.com/pelletier/go-toml/v2"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/findings"
)

// Config is the whole file. The zero value is what holds without one.
type Config struct {
	// Theme is auto, light or dark; "" is auto.
	Theme    string          `toml:"theme"`
	ASCII    bool            `toml:"ascii"`
	Interval Duration        `toml:"interval"`
	Dial     string          `toml:"dial"` // openssh, native or local
	Identity string          `toml:"identity"`
	Nodes    map[string]Node `toml:"node"`
	// OnFinding is a command of this machine that is run (sh -c) with a new
	// finding as JSON on its standard input; a node's own comes before it.
	OnFinding      string   `toml:"on_finding"`
	OnFindingFrom  string   `toml:"on_finding_from"`  // info, warning or critical; "" is critical
	OnFindingPause Duration `toml:"on_finding_pause"` // at least so long between two runs; 0 is 30s
	Record         Record   `toml:"record"`
}

// Node is what is known about one node beforehand; all of it is optional.
type Node struct {
	Host            string             `toml:"host"` // [user@]host[:port] or an alias of the ssh config; default: the node's name
	Dial            string             `toml:"dial"`
	Identity        string             `toml:"identity"`
	Target          int64              `toml:"target"` // rows of the whole job
	Targets         []Target           `toml:"targets"`
	Datasets        []string           `toml:"datasets"`
	ServerLogs      []string           `toml:"server_logs"`
	ClientLogs      []string           `toml:"client_logs"`
	Logs            []string           `toml:"logs"`
	Guards          []Guard            `toml:"guards"`
	GuardsFile      string             `toml:"guards_file"`
	Thresholds      map[string]float64 `toml:"thresholds"`
	Expected        bool               `toml:"expected"`
	ClientCommand   string             `toml:"client_command"`
	ClientResumable bool               `toml:"client_resumable"`
	ServerCommand   string             `toml:"server_command"`
	Endpoint        *Endpoint          `toml:"endpoint"`
	OnFinding       string             `toml:"on_finding"`
}

// Target is how many rows one dataset should have; Path may be a glob.
type Target struct {
	Path string `toml:"path"`
	Rows int64  `toml:"rows"`
}

// Guard is a rule of the data's owner about a flag.
type Guard struct {
	Flag        string   `toml:"flag"`
	Allow       []string `toml:"allow"`
	Deny        []string `toml:"deny"`
	Why         string   `toml:"why"`
	Overridable bool     `toml:"overridable"`
}

// Endpoint is a Prometheus endpoint of a server that is not discovered.
type Endpoint struct {
	Engine  string            `toml:"engine"`
	Addr    string            `toml:"addr"`
	Port    int               `toml:"port"`
	Path    string            `toml:"path"`
	Metrics map[string]string `toml:"metrics"`
}

// Duration is written as in Go: "1s", "500ms".
type Duration time.Duration

// UnmarshalText reads a duration.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("%q is no duration (try \"1s\" or \"500ms\")", b)
	}
	*d = Duration(v)
	return nil
}

// DefaultPath is the file that is read when none is named.
func DefaultPath() string { return filepath.Join(xdg.ConfigHome, "runvigil", "config.toml") }

// Load reads a configuration file. The default file may be missing; a file that
// the user named may not.
func Load(path string) (Config, error) {
	named := path != ""
	if !named {
		path = DefaultPath()
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && !named {
		return Config{}, nil
	}
	if err != nil {
		return Config{}, fmt.Errorf("read configuration: %w", err)
	}
	c, err := Parse(data)
	if err != nil {
		return Config{}, fmt.Errorf("configuration %s:\n%w", path, err)
	}
	return c, nil
}

// Parse reads a configuration. Unknown keys are errors that show their line.
func Parse(data []byte) (Config, error) {
	var c Config
	dec := toml.NewDecoder(bytes.NewReader(data)).DisallowUnknownFields()
	if err := dec.Decode(&c); err != nil {
		var strict *toml.StrictMissingError
		var bad *toml.DecodeError
		switch {
		case errors.As(err, &strict):
			return Config{}, fmt.Errorf("a key that runvigil does not know (docs/configuration.md lists all):\n%s", strict.String())
		case errors.As(err, &bad):
			return Config{}, errors.New(bad.String())
		}
		return Config{}, err
	}
	return c, c.check()
}

func (c Config) check() error {
	if err := oneOf("theme", c.Theme, "", "auto", "light", "dark"); err != nil {
		return err
	}
	if err := oneOf("dial", c.Dial, "", "openssh", "native", "local"); err != nil {
		return err
	}
	if c.Interval != 0 && time.Duration(c.Interval) < 200*time.Millisecond {
		return fmt.Errorf("interval is %s; the shortest is 200ms", time.Duration(c.Interval))
	}
	for name, n := range c.Nodes {
		if err := n.check(); err != nil {
			return fmt.Errorf("node %q: %w", name, err)
		}
	}
	return errors.Join(oneOf("on_finding_from", c.OnFindingFrom, "", "info", "warning", "critical"), c.Record.check())
}

func (n Node) check() error {
	if err := oneOf("dial", n.Dial, "", "openssh", "native", "local"); err != nil {
		return err
	}
	if n.Target < 0 {
		return fmt.Errorf("target is %d rows; leave it out where it is not known", n.Target)
	}
	for name, v := range n.Thresholds {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("threshold %s is %v; it must be a number", name, v)
		}
	}
	for _, t := range n.Targets {
		if t.Path == "" || t.Rows <= 0 {
			return fmt.Errorf("a target needs a path and rows above 0, this one has path %q and %d rows", t.Path, t.Rows)
		}
	}
	for _, g := range n.Guards {
		if g.Flag == "" || len(g.Allow)+len(g.Deny) == 0 {
			return fmt.Errorf("a guard needs a flag and something allowed or denied, this one has flag %q", g.Flag)
		}
		if g.Why == "" {
			return fmt.Errorf("the guard on %s has no why: the operator who meets it at night needs the reason", g.Flag)
		}
	}
	if unknown, near := findings.KnownThresholds(slices.Sorted(maps.Keys(n.Thresholds))); unknown != "" {
		return fmt.Errorf("there is no threshold %q (is %q meant? docs/findings.md lists all)", unknown, near)
	}
	if e := n.Endpoint; e != nil && (e.Port < 1 || e.Port > 65535) {
		return fmt.Errorf("endpoint has port %d; it needs one from 1 to 65535", e.Port)
	}
	return nil
}

func oneOf(key, got string, allowed ...string) error {
	for _, a := range allowed {
		if got == a {
			return nil
		}
	}
	return fmt.Errorf("%s is %q; it may be %s", key, got, strings.Join(allowed[1:], ", "))
}

// node is what is said of a node; what is said of "demo" holds for each of its
// scenarios that has no part of its own.
func (c Config) node(name string) Node {
	n, own := c.Nodes[name]
	if strings.HasPrefix(name, "demo:") && !own {
		return c.Nodes["demo"]
	}
	return n
}

// ForNode is the part of the configuration that the fold needs for one node.
func (c Config) ForNode(name string) metrics.Config {
	n := c.node(name)
	out := metrics.Config{
		Node: name, Datasets: n.Datasets, ClientLogs: n.ClientLogs, ServerLogs: n.ServerLogs, Logs: n.Logs,
		Thresholds: n.Thresholds, Interval: time.Duration(c.Interval), Expected: n.Expected, GuardsFile: n.GuardsFile,
		ClientCommand: n.ClientCommand, ClientResumable: n.ClientResumable, ServerCommand: n.ServerCommand,
	}
	if n.Target > 0 {
		out.Targets = append(out.Targets, metrics.ConfigTarget{Rows: n.Target})
	}
	for _, t := range n.Targets {
		out.Targets = append(out.Targets, metrics.ConfigTarget(t))
	}
	for _, g := range n.Guards {
		out.Guards = append(out.Guards, metrics.Guard{
			Flag: strings.TrimLeft(g.Flag, "-"), Allow: g.Allow, Deny: g.Deny, Why: g.Why, Overridable: g.Overridable, From: "config",
		})
	}
	if n.Endpoint != nil {
		e := metrics.ConfigEndpoint(*n.Endpoint)
		if e.Path == "" {
			e.Path = "/metrics"
		}
		out.Endpoint = &e
	}
	return out
}
