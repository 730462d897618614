package launch

import (
	"bytes"
	"errors"
	"fmt"
	"math/bits"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/runvigil/runvigil/metrics"
)

// IdentifyScript is a POSIX sh program that prints all that ParseIdentify reads
// about one process of the node. It changes nothing there. The nonce (letters
// and digits, chosen anew each time) keeps what it prints apart from what the
// process put into its environment. Secrets do not leave the node: what could be
// one stands as metrics.Masked in the output.
func IdentifyScript(pid int, nonce string) string {
	return fmt.Sprintf("N=%s P=%d\n", nonce, pid) + identifyBody
}

// hideProgram is the node's half of masking: "hide KIND" copies standard input and
// puts *** in the place of every value that metrics.MaskArgv and metrics.MaskEnv
// would mask, and of a few more: where a text holds a secret, all of the argument
// or value is hidden. KIND is argv or env (entries that end in NUL) or file (lines
// of a --config file). TestHideIsNoLessThanMask holds the two together.
const hideProgram = `hide() {
	if [ "$1" = file ]; then awk -v kind=file "$HIDE"; return; fi
	tr '\000\n' '\n\001' | awk -v kind="$1" "$HIDE" | tr '\n\001' '\000\n'
}
HIDE='
function run(class, n, r) { r = ""; while (n-- > 0) r = r class; return r }
BEGIN {
	name = "apikey|secrets?|password|passwd|passphrase|credentials?|authorization|cookie|accesskey|secretkey|authtoken|accesstoken"
	word = "^(key|token|auth|pass|pat|dsn|creds|jwt|" name ")$"
	after = "[] \001\t\047\"\\\\,=:]"
	owner = "(access|api|auth|bearer|bot|client|csrf|deploy|github|gitlab|hf|hub|huggingface|id|jwt|oauth|refresh|secret|security|service|session|user|wandb|xsrf)"
	inside = "(" name "|(api|access|secret|private|auth|signing|encryption|admin|account|master|license)[-_]*key|" owner "[-_]*token|(^|[^a-z0-9_-])[-_]*token)[-_]*" after
	upper = "TOKEN[-_]*" after
	shape = "(sk-|hf_|ghp_|gho_|ghs_|github_pat_|glpat-|xoxb-|xoxp-|nvapi-|gsk_|r8_)" run("[a-z0-9_-]", 16)
	jwt = "eyj" run("[a-z0-9_.~+/=-]", 20)
	aws = "akia" run("[a-z0-9_.~+/=-]", 16)
}
function secret(n) { n = tolower(n); gsub(/^[-_]+|[-_]+$/, "", n); sub(/^.*[-_]/, "", n); return n ~ word }
function holds(s, l) {
	if (s ~ upper) return 1
	l = tolower(s)
	return l ~ inside || l ~ shape || l ~ jwt || l ~ aws || l ~ /bearer / || l ~ /:\/\/[^\/?#]*@/
}
function nothing(v) { return v == "" || v == "***" || v == "None" || v == "null" || v == "nil" || v == "True" || v == "False" || v == "true" || v == "false" }
function value(s, i, n, v) {
	i = index(s, "="); n = substr(s, 1, i - 1); v = substr(s, i + 1)
	if (n ~ /^[-A-Za-z0-9_.]+$/ && !holds(n)) {
		if (nothing(v)) return s
		if (secret(n) || holds(s)) return n "=***"
		return s
	}
	return holds(s) ? "***" : s
}
kind == "env" { print value($0); next }
kind == "argv" {
	if (hidden && $0 !~ /^--/) { print nothing($0) ? $0 : "***"; hidden = 0; next }
	hidden = $0 ~ /^-/ && $0 !~ /[= ]/ && secret($0)
	print value($0); next
}
deep && /^[ \t]/ { print "# ***"; next }
{
	deep = 0
	if (match($0, /[:=]/)) {
		head = substr($0, 1, RSTART); tail = substr($0, RSTART + 1); label = head
		gsub(/[^A-Za-z0-9_-]/, "", label)
		if (secret(label)) { deep = tail ~ /^[ \t]*([|>].*)?$/; print head " ***"; next }
	}
	print holds($0) ? "# ***" : $0
}'
`

const identifyBody = `LC_ALL=C; export LC_ALL
s() { printf '\n%s %s\n' "$N" "$1"; }
` + hideProgram + `if ! command -v awk >/dev/null 2>&1; then hide() { s "unread awk"; }; fi
hidden() { s "$1"; if [ -r "$3" ]; then hide "$2" 2>/dev/null <"$3"; else s "unread $1"; fi; }
show() { s "$1"; cat "$2" 2>/dev/null || s "unread $1"; }
links() { s "$1"; ls -l "$2/" 2>/dev/null | sed -n 's/^[^>]* \([0-9a-z_]*\) -> /\1 /p'; }
s begin
show boot /proc/sys/kernel/random/boot_id
if ! [ -d "/proc/$P" ]; then s gone; s end; exit 0; fi
show stat "/proc/$P/stat"
hidden cmdline argv "/proc/$P/cmdline"
hidden environ env "/proc/$P/environ"
show limits "/proc/$P/limits"
show status "/proc/$P/status"
show cgroup "/proc/$P/cgroup"
show oom "/proc/$P/oom_score_adj"
for l in cwd exe; do s $l; readlink "/proc/$P/$l" 2>/dev/null || s "unread $l"; done
if ls "/proc/$P/fd/" >/dev/null 2>&1; then
	links fd "/proc/$P/fd"
	for n in 0 1 2; do s "fd$n"; readlink "/proc/$P/fd/$n" 2>/dev/null; done
else s "unread fd"; fi
links ns "/proc/$P/ns"
links myns /proc/self/ns
links myfd "/proc/$$/fd"
show mystatus /proc/self/status
show mylimits /proc/self/limits
show mycgroup /proc/self/cgroup
s me; id -u; id -un 2>/dev/null
s user; stat -c %U "/proc/$P" 2>/dev/null
s cpus; cat /sys/devices/system/cpu/online 2>/dev/null
s tools; for t in setsid taskset chrt prlimit renice nohup systemd-run python3; do command -v $t >/dev/null 2>&1 && echo $t; done
PP=$(sed -n 's/^PPid:[^0-9]*//p' "/proc/$P/status" 2>/dev/null)
if [ -n "$PP" ] && [ "$PP" != 0 ]; then
	hidden parent argv "/proc/$PP/cmdline"
	if ls "/proc/$PP/fd/" >/dev/null 2>&1; then links parentfd "/proc/$PP/fd"; fi
fi
F=$(tr '\000' '\n' <"/proc/$P/cmdline" 2>/dev/null | sed -n -e 's/^--config=//p' -e '/^--config$/{n;p;}' | tail -n 1)
case $F in ''|/*) ;; *) F=/proc/$P/cwd/$F ;; esac
if [ -n "$F" ] && [ -f "$F" ]; then hidden config file "$F"; fi
C=$(sed -n 's/^0:://p' "/proc/$P/cgroup" 2>/dev/null)
for f in memory.max cpu.max; do if [ -r "/sys/fs/cgroup$C/$f" ]; then show "$f" "/sys/fs/cgroup$C/$f"; fi; done
O=$(readlink "/proc/$P/fd/1" 2>/dev/null)
case $O in pipe:*)
	for f in $(ls -l /proc/[0-9]*/fd/0 2>/dev/null | grep -F "$O" | sed -n 's|.* /proc/\([0-9]*\)/fd/0 -> .*|\1|p'); do
		[ "$f" = "$P" ] && continue
		hidden reader argv "/proc/$f/cmdline"; s readercwd; readlink "/proc/$f/cwd" 2>/dev/null
		links readerfd "/proc/$f/fd"; break
	done ;;
esac
s end
`

// ErrGone says that the process no longer exists.
var ErrGone = errors.New("the process is gone")

// ParseIdentify reads what IdentifyScript printed. Secrets are masked once more
// here, so that none is in a Launch whatever the node's awk made of it. What the node did not tell is named in Unread; an
// answer that is cut short or of another process than pid is an error.
func ParseIdentify(raw []byte, nonce string, pid int) (Launch, error) {
	l := Launch{Umask: -1, UID: -1, GID: -1}
	p, err := split(raw, nonce)
	if err != nil {
		return l, fmt.Errorf("identify pid %d: %w", pid, err)
	}
	l.BootID = metrics.Clean(p.text("boot"), 64)
	if p.has("gone") {
		return l, fmt.Errorf("identify pid %d: %w", pid, ErrGone)
	}
	if err := l.stat(p.text("stat")); err != nil {
		return l, fmt.Errorf("identify pid %d: %w", pid, err)
	}
	if l.PID != pid {
		return l, fmt.Errorf("identify pid %d: the node answered about pid %d", pid, l.PID)
	}
	l.cmdline(p.get("cmdline"))
	l.flagsFile(p)
	l.environ(p)
	l.Dir, l.DirGone = strings.CutSuffix(strings.TrimSuffix(string(p.get("cwd")), "\n"), " (deleted)")
	l.Exe = p.text("exe")
	l.Limits = parseLimits(p.text("limits"))
	l.status(p.text("status"))
	l.OOMScore = atoi(p.text("oom"))
	l.User = metrics.Clean(p.text("user"), 64)
	l.CPUs = cpuCount(p.text("cpus"))
	l.here(p)
	l.cgroup(p)
	l.output(p)
	l.inherited(p)
	if cmd := argvOf(p.get("parent")); len(cmd) > 0 {
		l.Parent = metrics.Clean(strings.Join(metrics.MaskArgv(cmd), " "), 200)
	}
	mine := p.pairs("myns")
	for name, a := range p.pairs("ns") {
		if b := mine[name]; b != "" && a != b && !strings.HasSuffix(name, "_for_children") {
			l.Namespaces = append(l.Namespaces, name)
		}
	}
	slices.Sort(l.Namespaces)
	for _, name := range p.unread {
		if why, ok := unreadable[name]; ok {
			l.Unread = append(l.Unread, why)
		}
	}
	return l, nil
}

// unreadable says what is missing where a section could not be read.
var unreadable = map[string]string{
	"awk":     "its command and environment: the node has no awk to hide secrets with",
	"environ": "its environment: permission denied",
	"cwd":     "its directory: permission denied",
	"fd":      "its descriptors, so where its output goes: permission denied",
	"limits":  "its resource limits: permission denied",
}

// parts are the sections of an answer.
type parts struct {
	sections map[string][]byte
	unread   []string
}

func split(raw []byte, nonce string) (parts, error) {
	p := parts{sections: map[string][]byte{}}
	if nonce == "" {
		return p, errors.New("no nonce to tell the answer by")
	}
	mark := []byte("\n" + nonce + " ")
	_, rest, found := bytes.Cut(raw, mark)
	if !found {
		return p, errors.New("the node's answer has no beginning: is its shell a POSIX sh?")
	}
	for {
		chunk, after, more := bytes.Cut(rest, mark)
		name, body, _ := bytes.Cut(chunk, []byte{'\n'})
		switch word := string(name); {
		case word == "end":
			return p, nil
		case strings.HasPrefix(word, "unread "):
			word = strings.TrimPrefix(word, "unread ")
			delete(p.sections, word)
			p.unread = append(p.unread, word)
		default:
			if _, twice := p.sections[word]; !twice {
				p.sections[word] = body
			}
		}
		if !more {
			return p, errors.New("the node's answer was cut short; try again")
		}
		rest = after
	}
}

func (p parts) has(name string) bool    { _, ok := p.sections[name]; return ok }
func (p parts) get(name string) []byte  { return p.sections[name] }
func (p parts) text(name string) string { return strings.TrimSpace(string(p.sections[name])) }

// pairs reads "NAME target" lines, as links prints them.
func (p parts) pairs(name string) map[string]string {
	out := map[string]string{}
	for entry := range strings.SplitSeq(string(p.sections[name]), "\n") {
		if n, target, ok := strings.Cut(entry, " "); ok {
			out[n] = target
		}
	}
	return out
}

// fds are the descriptors and their targets. The standard ones were asked for
// one by one, since a file's name can imitate the listing.
func (p parts) fds() map[string]string {
	out := p.pairs("fd")
	for _, n := range []string{"0", "1", "2"} {
		delete(out, n)
		if to := strings.TrimSuffix(string(p.get("fd"+n)), "\n"); to != "" {
			out[n] = to
		}
	}
	return out
}

func (l *Launch) stat(line string) error {
	pid, _, _ := strings.Cut(line, " ")
	i := strings.LastIndex(line, ") ")
	if i < 0 {
		return errors.New("its stat line could not be read; is /proc mounted?")
	}
	f := strings.Fields(line[i+2:])
	if len(f) < 20 {
		return fmt.Errorf("its stat line has %d fields after the name, not 20", len(f))
	}
	l.PID, l.PPID, l.PGID, l.SID = atoi(pid), atoi(f[1]), atoi(f[2]), atoi(f[3])
	l.Terminal = atoi(f[4]) != 0
	l.Nice = atoi(f[16])
	start, err := strconv.ParseInt(f[19], 10, 64)
	if err != nil {
		return fmt.Errorf("its start time is %q", f[19])
	}
	l.Start = start
	if len(f) > 38 {
		l.Policy = atoi(f[38])
	}
	return nil
}

// argvOf splits a cmdline. A title leaves one word and padding.
func argvOf(raw []byte) []string {
	s := strings.TrimSuffix(string(raw), "\x00")
	if s == "" {
		return nil
	}
	return strings.Split(s, "\x00")
}

func (l *Launch) cmdline(raw []byte) {
	argv := argvOf(raw)
	if trimmed := strings.TrimRight(string(raw), "\x00"); len(argv) > 2 && !strings.Contains(trimmed, "\x00") {
		l.Unread = append(l.Unread, "its command: the process overwrote it with the title "+strconv.Quote(metrics.Clean(trimmed, 80)))
		return
	}
	l.Argv = metrics.MaskArgv(argv)
	l.Engine = engineOf(argv)
	if l.Engine == "" {
		l.Unread = append(l.Unread, "its engine: the command is neither SGLang's nor vLLM's, flags are kept as text")
	}
}

// flagsFile takes the flags that --config names, masked.
func (l *Launch) flagsFile(p parts) {
	if !p.has("config") || len(l.Argv) == 0 {
		return
	}
	set, err := ParseFlagsFile(l.Catalogue(), p.get("config"))
	if err != nil {
		l.Unread = append(l.Unread, "the flags that --config names: "+err.Error())
		return
	}
	for name, v := range set {
		set[name] = metrics.MaskValue(name, v)
	}
	l.FileFlags = set
}

// engineOf tells the engine whose server a command starts.
func engineOf(argv []string) string {
	for i, a := range argv {
		base := path.Base(a)
		next := ""
		if i+1 < len(argv) {
			next = argv[i+1]
		}
		switch {
		case a == "sglang.launch_server", strings.HasSuffix(a, "sglang/launch_server.py"), base == "sglang" && next == "serve":
			return "sglang"
		case strings.HasPrefix(a, "vllm.entrypoints."), base == "vllm" && next == "serve", strings.HasSuffix(a, "vllm/entrypoints/openai/api_server.py"):
			return "vllm"
		}
	}
	return ""
}

func (l *Launch) environ(p parts) {
	raw := p.get("environ")
	entries := strings.FieldsFunc(string(raw), func(r rune) bool { return r == 0 })
	l.EnvGone = p.has("environ") && len(entries) == 0
	for _, masked := range metrics.MaskEnv(entries) {
		name, value, ok := strings.Cut(masked, "=")
		if !ok || name == "" {
			continue
		}
		l.Env = append(l.Env, Var{Name: name, Value: value, Secret: strings.Contains(value, metrics.Masked)})
	}
}

// SessionVar tells the variables that belong to the login from which a server
// was started and not to the server: a restart leaves them out.
func SessionVar(name string) bool {
	switch name {
	case "PWD", "OLDPWD", "SHLVL", "_", "TERM", "TMUX", "TMUX_PANE", "STY", "WINDOW", "DISPLAY", "LS_COLORS", "SSH_TTY":
		return true
	}
	return strings.HasPrefix(name, "SSH_")
}

func parseLimits(text string) []Limit {
	lines := strings.Split(text, "\n")
	soft, hard, unit := strings.Index(lines[0], "Soft Limit"), strings.Index(lines[0], "Hard Limit"), strings.Index(lines[0], "Units")
	if soft < 0 || hard < soft || unit < hard {
		return nil
	}
	var out []Limit
	cell := func(line string, from, to int) string {
		if from >= len(line) {
			return ""
		}
		return strings.TrimSpace(line[from:min(to, len(line))])
	}
	for _, line := range lines[1:] {
		x := Limit{Name: cell(line, 0, soft), Soft: cell(line, soft, hard), Hard: cell(line, hard, unit), Unit: cell(line, unit, len(line))}
		if x.Name != "" && limitValue(x.Soft) && limitValue(x.Hard) {
			out = append(out, x)
		}
	}
	return out
}

func limitValue(s string) bool {
	_, err := strconv.ParseUint(s, 10, 64)
	return err == nil || s == "unlimited"
}

func (l *Launch) status(text string) {
	f := statusFields(text)
	if v, err := strconv.ParseInt(f["Umask"], 8, 32); err == nil {
		l.Umask = int(v)
	}
	l.UID, l.GID = firstInt(f["Uid"]), firstInt(f["Gid"])
	l.Groups = ints(f["Groups"])
	l.Affinity, l.Mems = f["Cpus_allowed_list"], f["Mems_allowed_list"]
	l.Caps = hex(f["CapEff"])
	l.NoNewPrivs = f["NoNewPrivs"] == "1"
	l.Seccomp = atoi(f["Seccomp"])
}

func statusFields(text string) map[string]string {
	out := map[string]string{}
	for line := range strings.SplitSeq(text, "\n") {
		if name, v, ok := strings.Cut(line, ":"); ok {
			out[name] = strings.TrimSpace(v)
		}
	}
	return out
}

func (l *Launch) here(p parts) {
	f := statusFields(p.text("mystatus"))
	if len(f) == 0 {
		return
	}
	l.Here = Here{
		Known: true, UID: firstInt(f["Uid"]), Groups: ints(f["Groups"]), Caps: hex(f["CapEff"]),
		Affinity: f["Cpus_allowed_list"], Limits: parseLimits(p.text("mylimits")), Cgroup: cgroupPath(p.text("mycgroup")),
		Tools: strings.Fields(p.text("tools")),
	}
	if me := strings.Fields(p.text("me")); len(me) > 1 {
		l.Here.User = metrics.Clean(me[1], 64)
	}
}

// cpuCount counts a CPU list such as "0-63,128".
func cpuCount(list string) int {
	n := 0
	for part := range strings.SplitSeq(list, ",") {
		a, b, isRange := strings.Cut(strings.TrimSpace(part), "-")
		first, err := strconv.Atoi(a)
		if err != nil {
			return 0
		}
		last := first
		if isRange {
			if last, err = strconv.Atoi(b); err != nil || last < first || last-first > 1<<16 {
				return 0
			}
		}
		n += last - first + 1
	}
	return n
}

func atoi(s string) int {
	n, err := strconv.Atoi(strings.TrimSpace(s))
	if err != nil {
		return 0
	}
	return n
}

func firstInt(s string) int {
	if v := ints(s); len(v) > 0 {
		return v[0]
	}
	return -1
}

func ints(s string) []int {
	var out []int
	for f := range strings.FieldsSeq(s) {
		if n, err := strconv.Atoi(f); err == nil {
			out = append(out, n)
		}
	}
	return out
}

func hex(s string) uint64 {
	v, err := strconv.ParseUint(s, 16, bits.UintSize)
	if err != nil {
		return 0
	}
	return v
}
