package restart

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/runvigil/runvigil/launch"
	"github.com/runvigil/runvigil/metrics"
)

// NewID is a new name for a restart; it sorts by time.
func NewID(now time.Time) string {
	var b [4]byte
	_, _ = rand.Read(b[:])
	return fmt.Sprintf("%d-%s", now.Unix(), hex.EncodeToString(b[:]))
}

// ErrNothingSaved says that no server runs and that no earlier restart saved a
// launch on the node: a command must be given.
var ErrNothingSaved = errors.New("no server runs, and no earlier restart or stop left its launch on the node: give one with --command")

const lookProgram = `
say() { printf '\n%s %s %s\n' "$N" "$1" "$2"; }
say base "$B"
say uid "$(id -u)"
say boot "$(cat /proc/sys/kernel/random/boot_id 2>/dev/null)"
say here "$(cat /proc/sys/kernel/random/boot_id 2>/dev/null)+$(readlink /proc/self/ns/pid | tr -cd 0-9)"
for l in "$B"/lock.*; do [ -h "$l" ] && say lock "$(readlink "$l")"; done
for l in "$B"/lock.*; do [ -h "$l" ] || continue
	o=$(readlink "$l"); p=${o%%:*}
	[ -r "/proc/$p/stat" ] && say locker "$p $(start_of "$p")"
done
case $(cat /proc/self/cgroup 2>/dev/null) in *session-*.scope*)
	k=$(busctl get-property org.freedesktop.login1 /org/freedesktop/login1 org.freedesktop.login1.Manager KillUserProcesses 2>/dev/null)
	[ -n "$k" ] || k=$(cat /etc/systemd/logind.conf /etc/systemd/logind.conf.d/*.conf /run/systemd/logind.conf.d/*.conf 2>/dev/null | sed -n 's/^KillUserProcesses=\(yes\|true\|1\)$/b true/p' | tail -n 1)
	[ "$(id -u)" = 0 ] || [ "$k" != "b true" ] || say kills yes
esac
if [ "$P" != 0 ]; then
	[ -r "/proc/$P/cmdline" ] && say sum "$(cksum <"/proc/$P/cmdline" 2>/dev/null)"
	[ ! -d "/proc/$P" ] || kill -0 "$P" 2>/dev/null || say denied "signals to process $P are not permitted to $(id -un 2>/dev/null)"
else
	read -r c 2>/dev/null <"$B/current" && [ -s "$B/$c/identify" ] && [ -d "$B/$c/saved" ] && say saved "$c"
fi
say end
`

// Look asks the node for the launch of the process pid, or, with pid 0, for the
// launch that the last restart or stop saved there. It changes nothing but for
// making the folder of restarts.
func Look(ctx context.Context, r Runner, pid int) (Seen, error) {
	id := nonce(NewID(time.Now()))
	var l lines
	l.set("N", id)
	l.set("P", strconv.Itoa(pid))
	l.b.WriteString("{\n" + baseDir + startProgram + lookProgram + "}\n")
	out, err := r.Run(ctx, l.b.Bytes())
	if err != nil {
		return Seen{}, fmt.Errorf("look at process %d: %w", pid, err)
	}
	answers := framed(out, id)
	if why := answers.last("failed"); why != "" {
		return Seen{}, fmt.Errorf("look at process %d: %s", pid, why)
	}
	if _, whole := answers["end"]; !whole {
		return Seen{}, fmt.Errorf("look at process %d: the node's answer was cut short; try again", pid)
	}
	s := Seen{
		ArgvSum: answers.last("sum"), Saved: answers.last("saved"), Base: answers.last("base"), UID: -1,
		KillsUserProcesses: answers.last("kills") == "yes", Init: pid == 1, Denied: answers.last("denied"),
	}
	if uid, err := strconv.Atoi(answers.last("uid")); err == nil {
		s.UID = uid
	}
	s.Busy = liveOwner(answers["lock"], answers["locker"], answers.last("here"))
	program, frame, of := launch.IdentifyScript(pid, id), id, pid
	if pid == 0 {
		if !validID(s.Saved) {
			s.Saved = ""
			s.Launch = launch.Launch{BootID: answers.last("boot"), Umask: -1, UID: -1, GID: -1}
			return s, ErrNothingSaved
		}
		program, frame = "cat "+l.quote(s.Base+"/"+s.Saved+"/identify")+"\n", nonce(s.Saved)
	}
	raw, err := r.Run(ctx, []byte(program))
	if err != nil {
		return s, fmt.Errorf("read the launch of process %d: %w", pid, err)
	}
	if pid == 0 {
		of = savedPID(raw, frame)
	}
	s.Launch, err = launch.ParseIdentify(raw, frame, of)
	if err == nil {
		s.Launch.BootID = answers.last("boot")
	}
	return s, err
}

// savedPID is the process that a saved answer is about.
func savedPID(raw []byte, frame string) int {
	_, rest, _ := bytes.Cut(raw, []byte("\n"+frame+" stat\n"))
	word, _, _ := bytes.Cut(rest, []byte(" "))
	pid, err := strconv.Atoi(string(word))
	if err != nil {
		return 0
	}
	return pid
}

func validID(s string) bool {
	return s != "" && len(s) <= 64 && strings.Trim(s, "0123456789abcdef-") == ""
}

// answers are the values that a program printed as "\nNONCE KEY VALUE", by key.
type answers map[string][]string

func (a answers) last(key string) string {
	v := a[key]
	if len(v) == 0 {
		return ""
	}
	return metrics.Clean(v[len(v)-1], 400)
}

func framed(out []byte, id string) answers {
	a := answers{}
	for line := range strings.Lines(string(out)) {
		rest, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), id+" ")
		if !ok {
			continue
		}
		key, value, _ := strings.Cut(rest, " ")
		a[key] = append(a[key], value)
	}
	return a
}

// liveOwner is the lock whose owner lives: PID:START:BOOT+NAMESPACE:ID:SINCE:USER.
func liveOwner(locks, lockers []string, here string) *Owner {
	alive := map[string]bool{}
	for _, l := range lockers {
		alive[strings.ReplaceAll(strings.TrimSpace(l), " ", ":")] = true
	}
	for _, l := range locks {
		f := strings.Split(l, ":")
		if len(f) != 6 || f[2] != here || !alive[f[0]+":"+f[1]] {
			continue
		}
		pid, _ := strconv.Atoi(f[0])
		start, _ := strconv.ParseInt(f[1], 10, 64)
		since, _ := strconv.ParseInt(f[4], 10, 64)
		return &Owner{ID: metrics.Clean(f[3], 64), PID: pid, Start: start, User: metrics.Clean(f[5], 64), Since: time.Unix(since, 0)}
	}
	return nil
}
