package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/runvigil/runvigil/launch"
	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/remote"
)

// captured runs f with options whose output goes to a file, and gives what was
// written.
func captured(t *testing.T, o *options, f func() error) (string, error) {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	o.io = stdio{in: null, out: file, err: file}
	runErr := f()
	out, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(out), runErr
}

func TestGuardInTheConfiguration(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.toml")
	const before = "theme = \"dark\" # mine\n\n[node.gpu7]\nhost = \"root@10.0.0.7\"\n"
	if err := os.WriteFile(file, []byte(before), 0o640); err != nil {
		t.Fatal(err)
	}
	o := &options{config: file, interval: time.Second}
	add := guardOptions{deny: []string{"fp8*"}, why: "degrades the model noticeably"}
	out, err := captured(t, o, func() error { return guard(t.Context(), o, "gpu7", "add", "kv-cache-dtype", add) })
	if err != nil || !strings.Contains(out, `+ flag = "kv-cache-dtype"`) || strings.Contains(out, "theme") {
		t.Errorf("%v:\n%s", err, out)
	}
	data, err := os.ReadFile(file)
	if err != nil || !strings.HasPrefix(string(data), before) {
		t.Errorf("%v: what was there changed:\n%s", err, data)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the mode became %v, %v", info.Mode(), err)
	}
	if err := o.prepare(); err != nil {
		t.Fatal(err)
	}
	out, err = captured(t, o, func() error { return guard(t.Context(), o, "gpu7", "list", "", guardOptions{}) })
	if err != nil || out != "kv-cache-dtype  deny fp8*  (config): degrades the model noticeably\n" {
		t.Errorf("%v: %q", err, out)
	}
	if _, err = captured(t, o, func() error { return guard(t.Context(), o, "gpu7", "remove", "kv-cache-dtype", guardOptions{}) }); err != nil {
		t.Error(err)
	}
	if data, err = os.ReadFile(file); err != nil || strings.TrimSpace(string(data)) != strings.TrimSpace(before) {
		t.Errorf("%v: after adding and removing:\n%s", err, data)
	}
	if _, err = captured(t, o, func() error { return guard(t.Context(), o, "gpu7", "remove", "kv-cache-dtype", guardOptions{}) }); err == nil || !strings.Contains(err.Error(), "no guard on") {
		t.Errorf("removing what is not there: %v", err)
	}
}

// The same rule is kept once, and what several add at once is all kept.
func TestGuardsAddedTwiceAndAtOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.toml")
	add := func(flag, why string) (string, error) {
		o := &options{config: file, interval: time.Second}
		return captured(t, o, func() error {
			return guard(t.Context(), o, "gpu7", "add", flag, guardOptions{deny: []string{"fp8*"}, why: why})
		})
	}
	for _, c := range []struct{ why, want string }{{"one", "+ why"}, {"two", "the same rule was there: it is replaced"}, {"two", "there already; nothing is changed"}} {
		if out, err := add("kv-cache-dtype", c.why); err != nil || !strings.Contains(out, c.want) {
			t.Errorf("%v:\n%s", err, out)
		}
	}
	data, err := os.ReadFile(file)
	if err != nil || strings.Count(string(data), "[[node.gpu7.guards]]") != 1 || !strings.Contains(string(data), `why = "two"`) {
		t.Errorf("%v:\n%s", err, data)
	}
	conn, err := remote.Dial(t.Context(), remote.Target{}, remote.Options{Dialer: remote.DialerLocal})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	onNode := filepath.Join(t.TempDir(), "guards.toml")
	const each = 4
	var wg sync.WaitGroup
	for i := range each {
		wg.Go(func() {
			if out, err := add(fmt.Sprintf("flag-%d", i), "w"); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
		wg.Go(func() {
			o := &options{}
			rule := metrics.Guard{Flag: fmt.Sprintf("flag-%d", i), Deny: []string{"x"}, Why: "w"}
			out, err := captured(t, o, func() error {
				return writeGuards(t.Context(), o, &node{name: "gpu7"}, conn, onNode, true, func(data []byte, table []string) ([]byte, string, error) {
					out, _, err := launch.AddGuard(data, table, rule)
					return out, "", err
				})
			})
			if err != nil {
				t.Errorf("on the node: %v: %s", err, out)
			}
		})
	}
	wg.Wait()
	for name, want := range map[string]int{file: each + 1, onNode: each} {
		data, err := os.ReadFile(name)
		if err != nil || strings.Count(string(data), "guards]]") != want {
			t.Errorf("%d guards wanted, %v:\n%s", want, err, data)
		}
		if left, err := os.ReadDir(filepath.Dir(name)); err != nil || len(left) != 1 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	}
}

func TestGuardRefusesWhatMakesNoSense(t *testing.T) {
	for name, c := range map[string]struct {
		action, flag string
		g            guardOptions
		readOnly     bool
		want         string
	}{
		"no such action": {"set", "x", guardOptions{}, false, "list, add or remove"},
		"no flag":        {"add", "", guardOptions{}, false, "name the flag"},
		"no reason":      {"add", "x", guardOptions{deny: []string{"y"}}, false, "has no why"},
		"no rule":        {"add", "x", guardOptions{why: "z"}, false, "allows and denies nothing"},
		"bad range":      {"add", "x", guardOptions{allow: []string{"9..1"}, why: "z"}, false, "is empty"},
		"why of a list":  {"list", "", guardOptions{why: "z"}, false, "belong to"},
		"read-only":      {"add", "x", guardOptions{deny: []string{"y"}, why: "z", onNode: true}, true, "--read-only"},
	} {
		o := &options{readOnly: c.readOnly, config: filepath.Join(t.TempDir(), "none.toml")}
		_, err := captured(t, o, func() error { return guard(t.Context(), o, "gpu7", c.action, c.flag, c.g) })
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestGuardsFileOnTheNode(t *testing.T) {
	conn, err := remote.Dial(t.Context(), remote.Target{}, remote.Options{Dialer: remote.DialerLocal})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	file := filepath.Join(t.TempDir(), "my data", "it's.toml")
	if err := os.Mkdir(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if _, exists, err := readOnNode(ctx, conn, file); exists || err != nil {
		t.Errorf("a file that is not there: %v, %v", exists, err)
	}
	one := launch.EncodeGuards([]metrics.Guard{{Flag: "kv-cache-dtype", Deny: []string{"fp8*"}, Why: "it's the owner's $HOME `rule` \\n"}})
	if err := replaceOnNode(ctx, conn, file, nil, false, one, ""); err != nil {
		t.Fatal(err)
	}
	got, exists, err := readOnNode(ctx, conn, file)
	if !exists || err != nil || string(got) != string(one) {
		t.Errorf("%v, %v:\n%s", exists, err, got)
	}
	// Somebody else's change in between is not overwritten.
	if err := replaceOnNode(ctx, conn, file, []byte("old"), true, nil, ""); err == nil || !strings.Contains(err.Error(), "changed it meanwhile") {
		t.Errorf("a changed file: %v", err)
	}
	if err := replaceOnNode(ctx, conn, file, nil, false, nil, ""); err == nil {
		t.Error("a file that came meanwhile was overwritten")
	}
	if err := replaceOnNode(ctx, conn, file, one, true, append(one, "\n\n"...), ""); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(filepath.Dir(file)); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	if err := replaceOnNode(ctx, conn, "/proc/none/x", nil, false, one, ""); err == nil {
		t.Error("a place that cannot be written to was no error")
	}

	run := &runner{dial: func(context.Context) (*remote.Conn, error) { return conn, nil }}
	now := func() time.Time { return time.Unix(1, 0) }
	read := func(file string) metrics.Frame {
		f, ok := guardsFrame(ctx, run, metrics.Config{GuardsFile: file}, nil, now)
		if !ok {
			t.Errorf("%s: nothing is told", file)
		}
		return f
	}
	if f := read(file); f.Kind != metrics.KindGuards || f.Name != "node" || !strings.Contains(string(f.Data), "kv-cache-dtype") {
		t.Errorf("%s %s: %s", f.Kind, f.Name, f.Data)
	}
	if err := os.WriteFile(file, []byte("[[guards]]\nflag = \"x\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if f := read(file); f.Kind != metrics.KindProbe || !strings.Contains(string(f.Data), "allows and denies nothing") {
		t.Errorf("a mistake in the file: %s %s", f.Kind, f.Data)
	}
	if f := read(file + ".none"); f.Kind != metrics.KindProbe || !strings.Contains(string(f.Data), "does not exist") {
		t.Errorf("no file: %s %s", f.Kind, f.Data)
	}
}

// The owner's rules beside the data hold for an operator whose configuration says
// nothing of them, and are seen while the screen is open.
func TestGuardsBesideTheData(t *testing.T) {
	conn, err := remote.Dial(t.Context(), remote.Target{}, remote.Options{Dialer: remote.DialerLocal})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	dir := t.TempDir()
	raw := filepath.Join(dir, "synth 100k", "raw")
	if err := os.MkdirAll(raw, 0o700); err != nil {
		t.Fatal(err)
	}
	l := newLive(&node{name: "gpu7"}, newClock(), nil)
	frames := make(chan metrics.Frame, 9)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.watchGuards(ctx, conn, func(f metrics.Frame) { frames <- f })
	}()
	defer func() {
		stop()
		<-done
	}()
	write := func(file, flag string) {
		if err := os.WriteFile(file, launch.EncodeGuards([]metrics.Guard{{Flag: flag, Deny: []string{"fp8*"}, Why: "w"}}), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	next := func(kind metrics.Kind, want ...string) {
		t.Helper()
		f := <-frames
		for _, w := range want {
			if f.Kind != kind || !strings.Contains(string(f.Data), w) {
				t.Errorf("%s %s lacks %s", f.Kind, f.Data, w)
			}
		}
	}
	write(filepath.Join(raw, guardsName), "beside")
	l.SetWants([]metrics.Want{{Kind: metrics.WantRows, Path: filepath.Join(raw, "B1.jsonl")}, {Kind: metrics.WantStat, Path: "/else/x"}})
	next(metrics.KindGuards, "beside")
	// Who is about to act sees what was added a moment ago.
	write(filepath.Join(dir, "synth 100k", guardsName), "above")
	l.lookForGuards()
	next(metrics.KindGuards, "beside", "above")
	// A restart from the command line reads them too, and one that it cannot read stops it.
	a := &act{
		n: &node{name: "gpu7", config: metrics.Config{Guards: []metrics.Guard{{Flag: "own"}}}}, run: &runner{dial: func(context.Context) (*remote.Conn, error) { return conn, nil }},
		snap: &metrics.Snapshot{Datasets: []metrics.Dataset{{Path: raw + "/B1", Shards: []metrics.Shard{{Path: filepath.Join(raw, "B1.jsonl")}}}}},
	}
	if got, err := a.guards(ctx); err != nil || len(got) != 3 || got[0].Flag != "beside" || got[1].Flag != "above" || got[2].Flag != "own" {
		t.Errorf("%v: %+v", err, got)
	}
	if err := os.WriteFile(filepath.Join(raw, guardsName), []byte("= no"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := a.guards(ctx); err == nil || !strings.Contains(err.Error(), "no TOML") {
		t.Errorf("a file with a mistake: %v", err)
	}
	l.lookForGuards()
	next(metrics.KindProbe, "no TOML")
	a.n.config.GuardsFile = filepath.Join(dir, "none")
	if _, err := a.guards(ctx); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("a configured file that is not there: %v", err)
	}
	for _, file := range []string{filepath.Join(raw, guardsName), filepath.Join(dir, "synth 100k", guardsName)} {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	l.lookForGuards()
	next(metrics.KindProbe, `"ok"`)
	next(metrics.KindGuards, "null")

	for name, c := range map[string]struct {
		c    metrics.Config
		data []string
		want string
	}{
		"nothing is known": {},
		"configured":       {metrics.Config{GuardsFile: "/g.toml", Datasets: []string{"/d/x"}}, []string{"/data/raw/x"}, "/g.toml"},
		"found":            {metrics.Config{}, []string{"/data/raw/x.jsonl", "/data/raw/y.jsonl", "/z.jsonl"}, "/data/raw/runvigil-guards.toml /data/runvigil-guards.toml"},
		"by a pattern":     {metrics.Config{Datasets: []string{"/data/*/raw/*.jsonl"}}, []string{"/data/b/raw/x"}, "/data/runvigil-guards.toml /data/b/raw/runvigil-guards.toml /data/b/runvigil-guards.toml"},
	} {
		if got := strings.Join(guardsFiles(c.c, c.data), " "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A start script keeps its mode and stays a link, and what it was lies beside it.
func TestScriptOnTheNode(t *testing.T) {
	conn, err := remote.Dial(t.Context(), remote.Target{}, remote.Options{Dialer: remote.DialerLocal})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	dir := t.TempDir()
	link, file := filepath.Join(dir, "start.sh"), filepath.Join(dir, "v3", "it's.sh")
	before, after := []byte("#!/bin/sh\nold $x `y`\n\n"), []byte("#!/bin/sh\nnew '\\n'\n\n")
	err = errors.Join(os.Mkdir(filepath.Dir(file), 0o755), os.WriteFile(file, before, 0o755), os.Symlink("v3/it's.sh", link))
	if err != nil {
		t.Fatal(err)
	}
	run := &runner{dial: func(context.Context) (*remote.Conn, error) { return conn, nil }}
	if err := writeScript(t.Context(), run, link, before, after); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]byte{file: after, link + launch.ScriptBackup: before} {
		info, err := os.Lstat(name)
		got, readErr := os.ReadFile(name)
		if err != nil || readErr != nil || string(got) != string(want) || info.Mode() != 0o755 {
			t.Errorf("%s: %v %v %v:\n%s", name, err, readErr, info.Mode(), got)
		}
	}
	if to, err := os.Readlink(link); to != "v3/it's.sh" {
		t.Errorf("the link became %q: %v", to, err)
	}
	if err := writeScript(t.Context(), run, link, before, []byte("x")); !errors.Is(err, errChanged) {
		t.Errorf("somebody edited it in between: %v", err)
	}
	if got, err := os.ReadFile(link + launch.ScriptBackup); string(got) != string(before) {
		t.Errorf("refused, and the copy was written anew: %v\n%s", err, got)
	}
	for _, d := range []string{dir, filepath.Dir(file)} {
		if left, err := filepath.Glob(filepath.Join(d, "*.lock")); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	}
}

func TestGuardsPath(t *testing.T) {
	for _, c := range []struct {
		config metrics.Config
		want   string
	}{
		{metrics.Config{}, ""},
		{metrics.Config{GuardsFile: "/g.toml", Datasets: []string{"/d/x.jsonl"}}, "/g.toml"},
		{metrics.Config{Datasets: []string{"/data/run/raw/*.jsonl"}}, "/data/run/raw/runvigil-guards.toml"},
		{metrics.Config{Datasets: []string{"/data/*/raw/*.jsonl"}}, "/data/runvigil-guards.toml"},
	} {
		if got := guardsPath(c.config); got != c.want {
			t.Errorf("%+v: %q, want %q", c.config, got, c.want)
		}
	}
}
