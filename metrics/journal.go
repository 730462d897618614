package metrics

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// JournalStep is what one line of a restart's journal tells.
type JournalStep string

// The steps of a restart, in the order in which they usually come. Not every
// restart has all of them.
const (
	JournalBegin      JournalStep = "begin"       // id, op, by (uid), boot: the script runs and holds the lock
	JournalBusy       JournalStep = "busy"        // owner, id, by, since: another restart runs; nothing was done
	JournalRefused    JournalStep = "refused"     // why: the check before any signal failed; nothing was done
	JournalIdentify   JournalStep = "identify"    // pid: the server's launch was saved on the node
	JournalClientStop JournalStep = "client-stop" // set: the client's processes were told to end
	JournalClientGone JournalStep = "client-gone"
	JournalDrain      JournalStep = "drain"   // for: seconds that requests may still take
	JournalDrained    JournalStep = "drained" // left: connections still open
	JournalAbort      JournalStep = "abort"   // rc: the engine was asked to give its requests up
	JournalTerm       JournalStep = "term"    // set: SIGTERM to the root
	JournalKill       JournalStep = "kill"    // set: SIGKILL to what is left of the tree
	JournalStopped    JournalStep = "stopped" // nothing of the tree lives
	JournalPortWait   JournalStep = "port-wait"
	JournalPortFree   JournalStep = "port-free" // port
	JournalGPUWait    JournalStep = "gpu-wait"  // used, need
	JournalGPUFree    JournalStep = "gpu-free"  // used: MiB by GPU
	JournalStart      JournalStep = "start"     // log, offset: the separator was written
	JournalStarted    JournalStep = "started"   // pid, port: pid:start of the new server
	JournalListening  JournalStep = "listening" // port: the new server has opened it
	JournalExited     JournalStep = "exited"    // pid, rc: the new server ended
	JournalBack       JournalStep = "back"      // the last good launch is started instead
	JournalClient     JournalStep = "client"    // pid: the client was started again
	JournalNote       JournalStep = "note"      // something to know, in its text
	JournalEnd        JournalStep = "end"       // state, why: the script is done
)

var journalSteps = []JournalStep{
	JournalBegin, JournalBusy, JournalRefused, JournalIdentify, JournalClientStop, JournalClientGone, JournalDrain, JournalDrained,
	JournalAbort, JournalTerm, JournalKill, JournalStopped, JournalPortWait, JournalPortFree, JournalGPUWait, JournalGPUFree,
	JournalStart, JournalStarted, JournalListening, JournalExited, JournalBack, JournalClient, JournalNote, JournalEnd,
}

// The states with which a journal ends.
const (
	JournalRunning   = "running"   // the new server runs (whether it gives tokens is not the script's to say)
	JournalDown      = "down"      // no server runs, as was wanted
	JournalUntouched = "untouched" // nothing was done
	JournalFailed    = "failed"    // no server runs, though one should; or one that cannot be ended
)

// JournalLine is one line of a restart's journal:
//
//	EPOCH STEP [KEY=VALUE ...] [-- TEXT]
//
// EPOCH is unix seconds of the node's clock. Keys are lower-case words, values
// have no space; TEXT is for people. No line holds a secret.
type JournalLine struct {
	At     time.Time
	Step   JournalStep
	Fields []JournalField
	Text   string
}

// JournalField is one KEY=VALUE of a line.
type JournalField struct{ Key, Value string }

// Get gives a field's value, "" where the line has none of that name.
func (l JournalLine) Get(key string) string {
	for _, f := range l.Fields {
		if f.Key == key {
			return f.Value
		}
	}
	return ""
}

// Process reads a field of the form pid:start.
func (l JournalLine) Process(key string) (pid int, start int64, ok bool) {
	p, s, found := strings.Cut(l.Get(key), ":")
	pid, errP := strconv.Atoi(p)
	start, errS := strconv.ParseInt(s, 10, 64)
	return pid, start, found && errP == nil && errS == nil && pid > 0
}

// String is the line as it stands in the journal, without its newline.
func (l JournalLine) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s", l.At.Unix(), l.Step)
	for _, f := range l.Fields {
		fmt.Fprintf(&b, " %s=%s", f.Key, f.Value)
	}
	if l.Text != "" {
		b.WriteString(" -- " + l.Text)
	}
	return b.String()
}

// maxJournalLine bounds a line in bytes; longer ones are not of our script.
const maxJournalLine = 4096

// ParseJournalLine reads one line. Text from the node is hostile: text and
// values are cleaned, and a line of another form is an error.
func ParseJournalLine(line string) (JournalLine, error) {
	bad := func(why string) (JournalLine, error) {
		return JournalLine{}, fmt.Errorf("journal line %q: %s", Clean(line, 80), why)
	}
	line = strings.TrimSuffix(line, "\n")
	if len(line) > maxJournalLine {
		return bad("too long")
	}
	head, text, _ := strings.Cut(line, " -- ")
	words := strings.Split(head, " ")
	if len(words) < 2 {
		return bad("it needs a time and a step")
	}
	sec, err := strconv.ParseInt(words[0], 10, 64)
	if err != nil || sec < 0 || sec > 1<<40 {
		return bad("its time is no unix time")
	}
	l := JournalLine{At: time.Unix(sec, 0), Step: JournalStep(words[1])}
	if !slices.Contains(journalSteps, l.Step) {
		return bad("no such step")
	}
	for _, w := range words[2:] {
		key, value, ok := strings.Cut(w, "=")
		if !ok || !journalKey(key) || value != strings.TrimSpace(Clean(value, len(value)+1)) {
			return bad("a field is no key=value")
		}
		l.Fields = append(l.Fields, JournalField{key, value})
	}
	l.Text = strings.TrimSpace(Mask(Clean(text, 1000)))
	return l, nil
}

func journalKey(s string) bool {
	for _, r := range s {
		if r < 'a' || r > 'z' {
			return false
		}
	}
	return s != ""
}

// Journal is what the lines of one restart tell so far.
type Journal struct {
	ID    string
	Op    string // restart, stop or start
	By    string // user id on the node
	Lines []JournalLine
	// Broken counts lines that could not be read; they change nothing.
	Broken int
	// PID and Start are the newest server that the script started, 0 none.
	PID   int
	Start int64
	Port  int // that it should open, 0 unknown
	// Listening says that the newest server has opened its port, Exited that it
	// has ended, with ExitCode.
	Listening bool
	Exited    bool
	ExitCode  int
	// Back says that the newest server is the last good launch.
	Back bool
	// Touched says that something was ended or started.
	Touched bool
	// Log is the new server's log and Offset where its part of it begins.
	Log    string
	Offset int64
	// Done says that the script has ended, with State and Why.
	Done  bool
	State string // JournalRunning …
	Why   string // one word, "" where all went well: gpu-held, port-held, unkillable …
}

// Apply folds one line into the journal.
func (j *Journal) Apply(line string) (JournalLine, error) {
	l, err := ParseJournalLine(line)
	if err != nil {
		j.Broken++
		return l, err
	}
	j.take(l)
	return l, nil
}

// Failed is the journal as it was when the new server had ended and the way back
// began; ok is false where none was gone.
func (j *Journal) Failed() (failed Journal, ok bool) {
	for _, l := range j.Lines {
		if l.Step == JournalBack {
			return failed, true
		}
		failed.take(l)
	}
	return Journal{}, false
}

func (j *Journal) take(l JournalLine) {
	j.Lines = append(j.Lines, l)
	switch l.Step {
	case JournalBegin:
		j.ID, j.Op, j.By = l.Get("id"), l.Get("op"), l.Get("by")
	case JournalClientStop, JournalTerm, JournalKill, JournalAbort:
		j.Touched = true
	case JournalStart:
		j.Touched = true
		if n, err := strconv.ParseInt(l.Get("offset"), 10, 64); err == nil && n >= 0 {
			j.Offset = n
		}
		j.Log = l.Text
	case JournalStarted:
		if pid, start, ok := l.Process("pid"); ok {
			j.PID, j.Start, j.Listening, j.Exited, j.ExitCode = pid, start, false, false, 0
		}
		if n, err := strconv.Atoi(l.Get("port")); err == nil && n > 0 && n < 1<<16 {
			j.Port = n
		}
	case JournalListening:
		j.Listening = true
	case JournalExited:
		if pid, start, ok := l.Process("pid"); ok && pid == j.PID && start == j.Start {
			j.Exited = true
			j.ExitCode, _ = strconv.Atoi(l.Get("rc"))
		}
	case JournalBack:
		j.Back = true
	case JournalEnd:
		j.Done, j.State, j.Why = true, l.Get("state"), l.Get("why")
	}
}
