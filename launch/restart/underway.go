package restart

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/runvigil/runvigil/launch"
	"github.com/runvigil/runvigil/metrics"
)

// UnderWay is a restart, stop or start that somebody began: another screen, a
// command line that was killed, another login.
type UnderWay struct {
	ID string
	// Folder holds its files on the node; Follow takes it.
	Folder string
	By     string    // login of the node
	Since  time.Time // node clock
	// Mine says that it is of this login, which may act on what it started.
	Mine bool
	// Hidden says that this login may not read its journal.
	Hidden bool
	// Dead says that its script ended without a last word.
	Dead bool
	// Held says that no other may begin yet; once its server has started, another
	// may take over.
	Held bool
	// Plan is what was confirmed as far as following needs it: operation, flags,
	// changes. It cannot be begun.
	Plan Plan
}

// String tells whose it is and since when.
func (u UnderWay) String() string {
	what := "a " + string(u.Plan.Op)
	if u.Plan.Op == EndOne {
		what = "the end of a process"
	}
	text := fmt.Sprintf("%s by %s is under way", what, orUser(u.By, -1))
	if u.Dead {
		text = fmt.Sprintf("%s by %s ended without a last word", what, orUser(u.By, -1))
	}
	if !u.Since.IsZero() {
		text += ", begun " + u.Since.UTC().Format("15:04:05 UTC")
	}
	return text
}

// shown is what of a plan is kept on the node for whoever follows it later. It
// holds no secrets.
type shown struct {
	Node    string          `json:"node"`
	Op      Op              `json:"op"`
	Options Options         `json:"options"`
	Boot    string          `json:"boot"`
	Engine  string          `json:"engine"`
	Version string          `json:"version"`
	Key     bool            `json:"key"` // the new server asks for a key
	Old     []string        `json:"old"`
	Command []string        `json:"command"`
	Diff    []launch.Change `json:"diff"`
}

func (p Plan) shown() ([]byte, error) {
	_, key := p.New.Getenv("VLLM_API_KEY")
	return json.Marshal(shown{
		Node: p.Node, Op: p.Op, Options: p.Options, Boot: p.Identity.BootID, Engine: p.New.Engine, Version: p.New.Version, Key: key,
		Old: p.Old.Argv, Command: p.Command, Diff: p.Diff,
	})
}

// planOf makes a plan of what the node kept, which another user may have written.
func planOf(id string, raw []byte) Plan {
	p := Plan{ID: id, Op: Restart}
	var s shown
	if json.Unmarshal(raw, &s) != nil {
		return p
	}
	switch s.Op {
	case Restart, Stop, Start, EndOne:
		p.Op = s.Op
	}
	clean := func(list []string) []string {
		out := make([]string, len(list))
		for i, v := range list {
			out[i] = metrics.Clean(v, 4096)
		}
		return metrics.MaskArgv(out)
	}
	p.Node, p.Options, p.Identity.BootID = metrics.Clean(s.Node, 200), s.Options, metrics.Clean(s.Boot, 64)
	p.Options.Override = metrics.Clean(s.Options.Override, 400)
	p.Command = clean(s.Command)
	p.Old = launch.Launch{BootID: p.Identity.BootID, Argv: clean(s.Old)}
	p.New = launch.Launch{BootID: p.Identity.BootID, Engine: metrics.Clean(s.Engine, 40), Version: metrics.Clean(s.Version, 40), Argv: p.Command}
	if s.Key {
		p.New.Env = []launch.Var{{Name: "VLLM_API_KEY", Value: metrics.Masked, Secret: true}}
	}
	for _, c := range s.Diff {
		for _, v := range []*string{&c.Flag, c.From, c.To} {
			if v != nil {
				*v = metrics.Clean(*v, 400)
			}
		}
		p.Diff = append(p.Diff, c)
	}
	return p
}

// underWayProgram prints the newest restart of this login, and those of others that
// hold a lock, each as a folder with what is needed to follow it. It writes nothing.
const underWayProgram = `
say() { printf '\n%s %s %s\n' "$N" "$1" "$2"; }
number() { case $1 in '' | *[!0-9]*) return 1 ;; esac; }
tell() { # folder, mine, owner of the lock
	o=
	read -r o 2>/dev/null <"$1/script"
	say restart
	say folder "$1"
	say mine "$2"
	say owner "$3"
	[ -r "$1/journal" ] || { say hidden 1; return; }
	number "${o%%:*}" && [ "$(start_of "${o%%:*}")" = "${o#*:}" ] || say dead 1
	say begin "$(sed -n '/^[0-9]* begin /{p;q;}' "$1/journal")"
	if grep -q '^[0-9]* end ' "$1/journal"; then say ended 1; fi
	say shown "$(head -c 65536 "$1/shown" 2>/dev/null)"
}
say boot "$(cat /proc/sys/kernel/random/boot_id 2>/dev/null)"
c=
[ -d "$B" ] && [ -O "$B" ] && read -r c 2>/dev/null <"$B/current"
if [ -n "$c" ]; then
	h=:free
	for l in "$B"/lock.*; do case $(readlink "$l" 2>/dev/null) in *:"$c":*) h=held ;; esac; done
	tell "$B/$c" yes "$h"
fi
[ "$OTHERS" = 0 ] || for l in /dev/shm/runvigil-*.lock.* /tmp/runvigil-*.lock.*; do
	[ -h "$l" ] || continue
	o=$(readlink "$l")
	p=${o%%:*} r=${o#*:}
	number "$p" && [ ! -O "/proc/$p" ] && [ "$(start_of "$p")" = "${r%%:*}" ] || continue
	D=$(tr '\000' '\n' 2>/dev/null <"/proc/$p/cmdline" | sed -n '/\/restart\.sh$/{n;n;p;}')
	[ "${D%/*}" != "$B" ] && [ "${D##*/}" ] || continue
	tell "$D" no "$o"
done
say end
`

// Find looks for a restart that is under way on the node, with others also another
// user's, nil if there is none. One of this login that ended without a last word
// counts too. It changes nothing there.
func Find(ctx context.Context, r Runner, others bool) (*UnderWay, error) {
	id := nonce(NewID(time.Now()))
	var l lines
	l.set("N", id)
	l.set("OTHERS", digit(others))
	l.b.WriteString("{\n" + baseName + startProgram + underWayProgram + "}\n")
	out, err := r.Run(ctx, l.b.Bytes())
	if err != nil {
		return nil, fmt.Errorf("look for a restart under way: %w", err)
	}
	if _, whole := framed(out, id)["end"]; !whole {
		return nil, errors.New("look for a restart under way: the node's answer was cut short; try again")
	}
	boot, dead := framed(out, id).last("boot"), (*UnderWay)(nil)
	for _, part := range strings.Split(string(out), "\n"+id+" restart \n")[1:] {
		switch u := underWay(framed([]byte("\n"+part), id), boot); {
		case u == nil:
		case !u.Dead:
			return u, nil
		case u.Mine:
			dead = u
		}
	}
	return dead, nil
}

// underWay reads what tell printed of one restart, nil if it is over.
func underWay(a answers, boot string) *UnderWay {
	folder := last(a["folder"])
	u := UnderWay{ID: path.Base(folder), Folder: folder, Mine: a.last("mine") == "yes", Hidden: a.last("hidden") != "", Dead: a.last("dead") != ""}
	owner := a.last("owner")
	u.Held = !u.Dead && !strings.HasSuffix(owner, ":free")
	if !path.IsAbs(folder) || !validID(u.ID) {
		return nil
	}
	if u.Hidden {
		f := strings.Split(owner, ":")
		if len(f) < 6 {
			return nil
		}
		u.By, u.Plan = metrics.Clean(f[5], 64), Plan{ID: u.ID, Op: Restart}
		if sec, err := strconv.ParseInt(f[4], 10, 64); err == nil {
			u.Since = time.Unix(sec, 0)
		}
		return &u
	}
	begin, err := metrics.ParseJournalLine(last(a["begin"]))
	if err != nil || begin.Get("boot") != boot || a.last("ended") != "" {
		return nil
	}
	u.By, u.Since = begin.Get("by"), begin.At
	u.Plan = planOf(u.ID, []byte(last(a["shown"])))
	if u.Plan.Identity.PID == 0 {
		u.Plan.Identity.PID, u.Plan.Identity.Start, _ = begin.Process("pid")
	}
	return &u
}

func last(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[len(list)-1]
}
