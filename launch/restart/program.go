package restart

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/runvigil/runvigil/launch"
	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/remote/posix"
)

//go:embed sh
var parts embed.FS

// script is the node's script, put together from its parts.
var script = joined("begin", "tree", "free", "key", "launch", "main")

func joined(names ...string) string {
	var b strings.Builder
	for _, name := range names {
		text, err := parts.ReadFile("sh/" + name + ".sh")
		if err != nil {
			panic(err) // the binary was built without a part of itself
		}
		b.Write(text)
		b.WriteByte('\n')
	}
	return b.String()
}

// gpuWait is how long GPU memory may take to become free.
const gpuWait = 2 * time.Minute

// Other waits of the script, in seconds.
const (
	killWait = 120 // after SIGKILL: tearing down GPUs and pinned memory takes its time
	portWait = 90
	grace    = 60 // after the port opened, for the way back
)

// baseName finds the folder for the files of restarts: B. A home may be shared by
// many nodes, whose restarts are no business of each other's.
const baseName = `umask 077
B=/tmp/runvigil-$(id -u)/restart
if [ -n "$HOME" ] && [ -d "$HOME" ] && [ -w "$HOME" ]; then B=$HOME/.cache/runvigil/$(uname -n | tr -c 'A-Za-z0-9._\n-' _)/restart; fi
`

// startProgram defines a function that prints when a process began; of one that is dead,
// and waits for a parent that never looks, nothing.
const startProgram = `start_of() { sed -n -e 's/^.*) //' -e '/^[^ZX]/p' "/proc/$1/stat" 2>/dev/null | cut -d ' ' -f 20; }
`

// baseDir makes it. It must be the login's own, for the script that is run from
// it is written into it.
const baseDir = baseName + `mkdir -p "$B" 2>/dev/null
if ! [ -d "$B" ] || ! [ -O "$B" ] || [ -h "$B" ]; then printf '\n%s failed %s\n' "$N" "$B is not a folder of this login's own"; exit 0; fi
`

// lines builds shell text; the first error stays.
type lines struct {
	b   bytes.Buffer
	err error
}

func (l *lines) add(format string, a ...any) {
	fmt.Fprintf(&l.b, format+"\n", a...)
}

func (l *lines) quote(s string) string {
	q, err := posix.Quote(s)
	if err != nil && l.err == nil {
		l.err = err
	}
	return q
}

func (l *lines) set(name, value string) { l.add("%s=%s", name, l.quote(value)) }

// file writes a file as it stands into the folder D.
func (l *lines) file(name string, content []byte, mark string) {
	if bytes.Contains(content, []byte(mark)) && l.err == nil {
		l.err = errors.New("a file of the restart holds its own end mark")
	}
	l.add("cat >\"$D/%s\" <<'%s' || full=1", name, mark)
	l.b.Write(content)
	if !bytes.HasSuffix(content, []byte("\n")) {
		l.b.WriteByte('\n')
	}
	l.add("%s", mark)
}

// nonce is what frames the node's answers to a restart: letters and digits.
func nonce(id string) string { return "rv" + strings.ReplaceAll(id, "-", "x") }

// program is what is fed to the node's shell: it writes the files, then runs the
// script. It is one compound command, so that a shell that gets only a part of
// it finds a syntax error and does nothing.
func (p Plan) program(mode string) ([]byte, error) {
	files, err := p.files()
	if err != nil {
		return nil, err
	}
	var l lines
	l.set("N", nonce(p.ID))
	l.b.WriteString("{\n" + baseDir)
	folder := p.ID
	if mode == "check" {
		folder = "check-" + p.ID
	}
	l.add("D=$B/%s", folder)
	l.add("full=")
	l.add(`mkdir "$D" || { printf '\n%%s failed %%s\n' "$N" "$D cannot be made"; exit 0; }`)
	mark := "END_" + nonce(p.ID)
	if mode != "check" {
		maps.DeleteFunc(files, func(name string, _ []byte) bool {
			return strings.HasPrefix(name, "check.") || strings.HasPrefix(name, "path.")
		})
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		l.file(name, files[name], mark)
	}
	l.add(`if [ -n "$full" ]; then rm -rf "$D"; printf '\n%%s failed %%s\n' "$N" "$D cannot be written: is its disk full?"; exit 0; fi`)
	if mode == "check" {
		l.add(`(%s "$D/restart.sh" check "$D") </dev/null 2>/dev/null | sed "s/^/$N line /"`, p.shell())
		l.add(`rm -rf "$D"`)
		l.add(`printf '\n%%s end\n' "$N"`)
	} else {
		l.add(`if command -v setsid >/dev/null 2>&1; then`)
		l.add(`setsid %s "$D/restart.sh" run "$D" >/dev/null 2>&1 </dev/null &`, p.shell())
		l.add(`else (trap '' HUP; exec %s "$D/restart.sh" run "$D" >/dev/null 2>&1 </dev/null) & fi`, p.shell())
		l.add(`printf '\n%%s begun %%s\n' "$N" "$D"`)
	}
	l.b.WriteString("}\n")
	return l.b.Bytes(), l.err
}

func (p Plan) shell() string {
	if p.sh != "" {
		return p.sh
	}
	return "/bin/sh"
}

// files are what the script needs, by name. new.sh may hold secrets that were
// typed in.
func (p Plan) files() (map[string][]byte, error) {
	files := map[string][]byte{"restart.sh": []byte(script)}
	plan, err := p.variables()
	if err != nil {
		return nil, err
	}
	files["plan"] = plan
	if files["shown"], err = p.shown(); err != nil {
		return nil, err
	}
	if p.Identity.PID > 0 && p.Op != EndOne {
		files["identify.sh"] = []byte(launch.IdentifyScript(p.Identity.PID, nonce(p.ID)))
	}
	if p.Op == Restart || p.Op == Start {
		if err := p.launchFiles(files); err != nil {
			return nil, err
		}
	}
	if p.Options.Client == ClientRestart && p.clientCmd != "" {
		files["client.sh"] = []byte(p.clientCmd + "\n")
		files["client.place"] = []byte(":\n")
	}
	return files, nil
}

func (p Plan) launchFiles(files map[string][]byte) error {
	// The mark finds children of a server that dies before anybody sees them.
	mark := func(name string) launch.Var { return launch.Var{Name: "RUNVIGIL_START", Value: p.ID + "-" + name} }
	newSh, err := become(p.New, p.words, append(slices.Clone(p.setEnv), mark("new")), p.unsetEnv)
	if err != nil {
		return fmt.Errorf("write the new command for the node: %w", err)
	}
	files["new.sh"], files["new.place"] = newSh, place(p.Old)
	if p.Options.WayBack && p.Old.Known() && (p.Identity.PID > 0 || p.saved != "") {
		words := make([]launch.Word, len(p.Old.Argv))
		for i := range words {
			words[i].From = i
		}
		old, err := become(p.Old, words, []launch.Var{mark("old")}, nil)
		if err != nil {
			return fmt.Errorf("write the way back for the node: %w", err)
		}
		files["old.sh"], files["old.place"] = old, place(p.Old)
	}
	if p.New.Engine == "sglang" || p.New.Engine == "vllm" {
		words := append(slices.Clone(p.words), launch.Word{Text: "--help", From: -1})
		env := append(slices.Clone(p.setEnv), launch.Var{Name: "CUDA_VISIBLE_DEVICES", Value: ""})
		check, err := become(p.New, words, env, p.unsetEnv)
		if err != nil {
			return err
		}
		files["check.sh"], files["check.place"] = check, []byte(":\n")
	}
	for i, must := range p.mustExist() {
		files["path."+strconv.Itoa(i)] = []byte(must)
	}
	return nil
}

// mustExist are the paths of the new command that a server reads at its start.
func (p Plan) mustExist() []string {
	var out []string
	for name, v := range p.New.Effective() {
		switch name {
		case "model-path", "model", "tokenizer-path", "tokenizer", "chat-template", "config", "speculative-draft-model-path":
			if path.IsAbs(v) && !strings.ContainsAny(v, "\n") {
				out = append(out, v)
			}
		}
	}
	if p.New.Dir != "" && !p.New.DirGone {
		out = append(out, p.New.Dir)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func seconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}

func digit(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// variables are the plan as the script reads it.
func (p Plan) variables() ([]byte, error) {
	var l lines
	termWait := p.Options.TermWait
	if termWait == 0 {
		termWait = DefaultTermWait
	}
	var ids []string
	for _, c := range p.Clients {
		if c.PID > 0 {
			ids = append(ids, fmt.Sprintf("%d:%d", c.PID, c.Start))
		}
	}
	first := ""
	if len(ids) > 0 && p.clientSaved {
		first = ids[0]
	}
	client := p.Options.Client
	if client == "" {
		client = ClientKeep
	}
	log, clientLog := p.Log, p.clientLog
	l.set("ID", p.ID)
	l.set("OP", string(p.Op))
	l.set("SH", p.shell())
	l.set("BOOT", p.Identity.BootID)
	l.set("P", strconv.Itoa(p.Identity.PID))
	l.set("S", strconv.FormatInt(p.Identity.Start, 10))
	l.set("SUM", p.ArgvSum)
	l.set("PORT", strconv.Itoa(p.oldPort))
	l.set("NEWPORT", strconv.Itoa(p.Port))
	l.set("CLIENT", string(client))
	l.set("CLIENTS", strings.Join(ids, " "))
	l.set("CLIENTID", first)
	l.set("DRAIN", seconds(p.Options.Drain))
	l.set("ABORT", digit(p.Options.Abort))
	l.set("TERMWAIT", seconds(termWait))
	l.set("KILLWAIT", strconv.Itoa(killWait))
	l.set("PORTWAIT", strconv.Itoa(portWait))
	wait := p.gpuWait
	if wait == 0 {
		wait = gpuWait
	}
	l.set("GPUWAIT", seconds(wait))
	l.set("GRACE", strconv.Itoa(grace))
	l.set("BACK", digit(p.Options.WayBack && p.Old.Known()))
	l.set("NEEDPCT", strconv.Itoa(needPercent(p.New)))
	l.set("HOSTKB", strconv.FormatInt(max(0, hostCache(p.New)-hostCache(p.Old))/1024, 10))
	l.set("SAVED", p.saved)
	l.set("SEPARATOR", metrics.StartSeparator)
	switch {
	case log == "":
		l.add(`LOG=${BASE%%/*}/logs/%s.log`, p.ID)
	case path.IsAbs(log):
		l.set("LOG", log)
	default: // a command line's own: from where a login begins
		l.add(`LOG=${HOME:-$PWD}/%s`, l.quote(log))
	}
	if clientLog == "" {
		l.add(`CLIENTLOG=${BASE%%/*}/logs/%s-client.log`, p.ID)
	} else {
		l.set("CLIENTLOG", clientLog)
	}
	for _, s := range []string{p.ID, log, clientLog} {
		if strings.ContainsAny(s, "\n\r") {
			return nil, fmt.Errorf("the path %q has a line break, which the journal cannot hold", metrics.Clean(s, 200))
		}
	}
	return l.b.Bytes(), l.err
}

// needPercent is the share of a GPU's memory that a launch takes, in percent.
func needPercent(l launch.Launch) int {
	eff := l.Effective()
	for _, name := range []string{"mem-fraction-static", "gpu-memory-utilization"} {
		if v, err := strconv.ParseFloat(eff[name], 64); err == nil && v > 0 && v <= 1 {
			return int(v * 100)
		}
	}
	return 88
}

// hostCache is the host memory that a launch pins for its hierarchical cache in
// bytes, where --hicache-size tells it; the engine counts it in 1e9 a rank.
func hostCache(l launch.Launch) int64 {
	eff := l.Effective()
	if eff["enable-hierarchical-cache"] != "true" {
		return 0
	}
	size, err := strconv.ParseFloat(eff["hicache-size"], 64)
	if err != nil || size <= 0 {
		return 0
	}
	ranks := 1
	for _, name := range []string{"tp-size", "tensor-parallel-size", "tp"} {
		if n, err := strconv.Atoi(eff[name]); err == nil && n > 0 {
			ranks = n
		}
	}
	return int64(size * 1e9 * float64(ranks))
}

// become is the shell text that turns into the command: variables, directory,
// umask, and exec. Arguments that hold secrets are $rv_word_N, which the node fills
// from what it saved.
func become(l launch.Launch, words []launch.Word, set []launch.Var, unset []string) ([]byte, error) {
	var s lines
	for _, name := range unset {
		s.add("unset %s", s.quote(name))
	}
	for _, v := range set {
		line, err := posix.Export(v.Name, v.Value)
		if err != nil {
			return nil, err
		}
		s.add("%s", line)
	}
	if l.Dir != "" && !l.DirGone {
		s.add("cd %s || exit 126", s.quote(l.Dir))
	}
	if l.Umask >= 0 {
		s.add("umask %04o", l.Umask)
	}
	s.b.WriteString("exec")
	for _, w := range words {
		if w.From >= 0 {
			fmt.Fprintf(&s.b, ` "$rv_word_%d"`, w.From)
		} else {
			s.b.WriteString(" " + s.quote(w.Text))
		}
	}
	if len(words) == 0 {
		return nil, errors.New("there is no command")
	}
	s.b.WriteByte('\n')
	return s.b.Bytes(), s.err
}

// place is the shell text that gives the process its limits and its place on the
// machine, where the login's own differ.
func place(l launch.Launch) []byte {
	var s lines
	s.add(":")
	here := launch.Launch{Limits: l.Here.Limits}
	for _, r := range []struct {
		name, long, letter string
		unit               int
	}{
		{"Max open files", "nofile", "-n", 1},
		{"Max locked memory", "memlock", "-l", 1024},
		{"Max stack size", "stack", "-s", 1024},
		{"Max processes", "nproc", "", 1},
		{"Max core file size", "core", "", 1},
	} {
		want, ok := l.Limit(r.name)
		mine, known := here.Limit(r.name)
		if !ok || known && mine.Soft == want.Soft && mine.Hard == want.Hard {
			continue
		}
		s.add("lim %s %s %d %s %s", r.long, s.quote(r.letter), r.unit, s.quote(want.Soft), s.quote(want.Hard))
	}
	if l.Affinity != "" && l.Affinity != l.Here.Affinity {
		s.add(`taskset -pc %s $$ >/dev/null 2>&1 || echo "CPU affinity" >>"$D/lost"`, s.quote(l.Affinity))
	}
	if l.Nice != 0 {
		s.add(`renice -n %d -p $$ >/dev/null 2>&1 || echo "nice %d" >>"$D/lost"`, l.Nice, l.Nice)
	}
	if l.OOMScore != 0 {
		s.add(`(echo %d >/proc/$$/oom_score_adj) 2>/dev/null || echo "oom_score_adj %d" >>"$D/lost"`, l.OOMScore, l.OOMScore)
	}
	return s.b.Bytes()
}
