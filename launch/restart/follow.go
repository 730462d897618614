package restart

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// pollEvery is how often the journal is read.
const pollEvery = 500 * time.Millisecond

// ErrRefused says that the plan has refusals and was not begun.
var ErrRefused = errors.New("the plan is refused")

// ErrLost says that the script's folder is gone from the node, e.g. since a later
// restart cleaned it.
var ErrLost = errors.New("the journal is gone from the node")

// Check asks the node for its own objections: whether the server is still the
// confirmed one, the paths exist, the log can be written, the port is free, and,
// for engines that we know, whether their own parser takes the new arguments. It
// signals and starts nothing else. notes are things to know that stop nothing.
func Check(ctx context.Context, r Runner, p Plan) (refusals []Refusal, notes []string, err error) {
	program, err := p.program("check")
	if err != nil {
		return nil, nil, err
	}
	out, err := r.Run(ctx, program)
	if err != nil {
		return nil, nil, fmt.Errorf("check the plan on the node: %w", err)
	}
	a := framed(out, nonce(p.ID))
	if why := a.last("failed"); why != "" {
		return nil, nil, fmt.Errorf("check the plan on the node: %s", why)
	}
	if _, whole := a["end"]; !whole {
		return nil, nil, errors.New("check the plan on the node: the answer was cut short; try again")
	}
	for _, text := range a["line"] {
		l, err := metrics.ParseJournalLine(text)
		if err != nil {
			continue
		}
		switch l.Step {
		case metrics.JournalRefused:
			refusals = append(refusals, refusalOf(l))
		case metrics.JournalBusy:
			refusals = append(refusals, busy(ownerOf(l), p.Node))
		case metrics.JournalNote:
			notes = append(notes, l.Text)
		}
	}
	return refusals, notes, nil
}

// refusalOf is what the node's own check said.
func refusalOf(l metrics.JournalLine) Refusal {
	why := l.Get("why")
	way, known := map[string]string{
		"gone":       "look again: another server may run by now",
		"changed":    "look again: the process is not the one that was shown",
		"rebooted":   "look again, and start the server anew",
		"permission": "log in as its user, or as root",
		"log":        "make it writable for this login, or name another log",
		"disk":       "free some space first",
		"memory":     "choose a smaller --hicache-size",
		"port-held":  "end that process, or choose another --port",
		"path":       "correct the path",
		"parser":     "correct the flag that it names",
		"command":    "is its environment still there?",
		"saved":      "give the command with --command",
	}[why]
	if !known {
		way = "look again"
	}
	return Refusal{Code: RefusalCode(why), Reason: l.Text, Way: way}
}

func ownerOf(l metrics.JournalLine) Owner {
	o := Owner{ID: l.Get("id"), User: l.Get("by")}
	o.PID, o.Start, _ = l.Process("owner")
	if sec, err := strconv.ParseInt(l.Get("since"), 10, 64); err == nil {
		o.Since = time.Unix(sec, 0)
	}
	return o
}

// Begin uploads the script and starts it. Once it has returned without an error
// the restart runs to its end, with or without us. An error with ErrUnsure in it
// means that it may have begun: Follow tells.
func Begin(ctx context.Context, r Runner, p Plan) error {
	if p.Refused() {
		return ErrRefused
	}
	program, err := p.program("run")
	if err != nil {
		return err
	}
	out, err := r.Run(ctx, program)
	a := framed(out, nonce(p.ID))
	if why := a.last("failed"); why != "" {
		return fmt.Errorf("begin %s: %s", p.ID, why)
	}
	if a.last("begun") != "" {
		return nil
	}
	if err == nil {
		err = errors.New("the node did not confirm it")
	}
	return fmt.Errorf("begin %s: %w: %w", p.ID, ErrUnsure, err)
}

// ErrUnsure says that the link was cut while the script was being started.
var ErrUnsure = errors.New("it is not known whether the script was started")

// notBegun is how long a folder without a journal is waited for.
const notBegun = 10 * time.Second

// Follow reads the journal of a restart until its script has ended, and calls
// each for every line in order. The restart is given by its id, or, where it is
// another login's, by its folder. A link that goes down is waited for. The journal
// is returned as far as it is known in any case. Nothing on the node is changed.
func Follow(ctx context.Context, r Runner, of string, each func(metrics.JournalLine)) (metrics.Journal, error) {
	var j metrics.Journal
	id := path.Base(of)
	f := follower{r: r, of: of}
	var silent time.Time
	for {
		chunk, found, err := f.read(ctx)
		switch {
		case ctx.Err() != nil:
			return j, ctx.Err()
		case err != nil:
			if werr := r.Wait(ctx); werr != nil {
				return j, werr
			}
		case !found && silent.IsZero():
			silent = time.Now()
		case !found && time.Since(silent) > notBegun:
			return j, fmt.Errorf("follow %s: %w", id, ErrLost)
		case found:
			silent = time.Time{}
		}
		for line := range strings.Lines(chunk) {
			if l, lerr := j.Apply(line); lerr == nil {
				each(l)
			}
		}
		if j.Done {
			return j, nil
		}
		if f.dead && err == nil && chunk == "" {
			return j, fmt.Errorf("follow %s: the script ended without a last word, perhaps it was killed; see what runs on the node", id)
		}
		select {
		case <-time.After(pollEvery):
		case <-ctx.Done():
			return j, ctx.Err()
		}
	}
}

type follower struct {
	r      Runner
	of     string // id or folder
	offset int64
	// dead says that the script no longer lives.
	dead bool
}

// read gives the whole lines that were written since the last call.
func (f *follower) read(ctx context.Context) (chunk string, found bool, err error) {
	n := nonce(NewID(time.Now()))
	var l lines
	l.set("N", n)
	l.b.WriteString("{\n" + baseName + startProgram)
	if path.IsAbs(f.of) {
		l.set("D", f.of)
	} else {
		l.add(`D=$B/%s`, f.of)
	}
	l.add(`if [ -d "$D" ]; then printf '\n%%s found\n' "$N"; fi`)
	// Whether it lives is asked before the journal is read: a last word that
	// comes between the two is not missed.
	l.add(`if read -r o 2>/dev/null <"$D/script"; then`)
	l.add(`[ "$(start_of "${o%%%%:*}")" = "${o#*:}" ] || printf '\n%%s dead\n' "$N"; fi`)
	l.add(`printf '\n%%s text\n' "$N"; tail -c +%d "$D/journal" 2>/dev/null; printf '\n%%s end\n' "$N"`, f.offset+1)
	l.b.WriteString("}\n")
	out, err := f.r.Run(ctx, l.b.Bytes())
	if err != nil {
		return "", false, err
	}
	a := framed(out, n)
	_, whole := a["end"]
	if !whole {
		return "", false, errors.New("the node's answer was cut short")
	}
	_, found = a["found"]
	_, f.dead = a["dead"]
	_, rest, _ := strings.Cut(string(out), "\n"+n+" text\n")
	rest, _, _ = strings.Cut(rest, "\n"+n+" end\n")
	rest = rest[:strings.LastIndexByte(rest, '\n')+1] // whole lines only
	f.offset += int64(len(rest))
	return rest, found, nil
}

// maxRead bounds a file that is read as a whole, in bytes.
const maxRead = 1 << 20

// ReadFile reads a small file of the node.
func ReadFile(ctx context.Context, r Runner, path string) ([]byte, error) {
	return readBytes(ctx, r, path, 1, maxRead)
}

// ReadLog reads what the newest server of a journal has written, at most the
// last limit bytes. It may hold secrets of the server's: mask it.
func ReadLog(ctx context.Context, r Runner, j metrics.Journal, limit int) ([]byte, error) {
	if j.Log == "" {
		return nil, errors.New("the journal names no log")
	}
	return readBytes(ctx, r, j.Log, j.Offset+1, limit)
}

// readBytes reads a file from a 1-based byte on, at most the last limit bytes.
func readBytes(ctx context.Context, r Runner, path string, from int64, limit int) ([]byte, error) {
	n := nonce(NewID(time.Now()))
	var l lines
	l.set("N", n)
	l.set("F", path)
	l.add(`{ if [ -r "$F" ] && [ -f "$F" ]; then printf '\n%%s text\n' "$N"; tail -c +%d "$F" | tail -c %d; printf '\n%%s end\n' "$N"; else printf '\n%%s failed it cannot be read\n' "$N"; fi; }`, from, limit)
	if l.err != nil {
		return nil, l.err
	}
	out, err := r.Run(ctx, l.b.Bytes())
	if err != nil {
		return nil, err
	}
	_, rest, found := strings.Cut(string(out), "\n"+n+" text\n")
	if !found {
		return nil, errors.New("it cannot be read")
	}
	i := strings.LastIndex(rest, "\n"+n+" end\n")
	if i < 0 {
		return nil, errors.New("the node's answer was cut short")
	}
	return []byte(rest[:i]), nil
}
