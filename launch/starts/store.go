// Package starts keeps the history of every start that was seen, and compares
// them. The history is a file of JSON Lines: events that each hold what was
// known of one start at one moment, merged when it is read. Several programs may
// write it at once, and one that dies while writing harms its own line only.
package starts

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// fileName is the history in a node's state folder.
const fileName = "starts.jsonl"

// maxLine is the size in bytes above which a line is taken for damage.
const maxLine = 1 << 20

// Event is one line of the history: what was known of a start at a moment.
type Event struct {
	V   int       `json:"v"`   // 1
	Key string    `json:"key"` // the start's id: boot id, pid and start ticks, or a name
	At  time.Time `json:"at"`  // when it was noticed
	// What names the change in a word, for people and jq: seen, ready, token,
	// settled, level, ended, note.
	What  string        `json:"what,omitempty"`
	Start metrics.Start `json:"start"`
}

// Append adds events to the history in a folder, each in one write, so that
// several writers do not mix their lines. The file is readable by its owner only.
func Append(dir string, events ...Event) error {
	if len(events) == 0 {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("keep starts: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, fileName), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("keep starts: %w", err)
	}
	for _, e := range events {
		line, encErr := encode(e)
		if encErr != nil {
			return errors.Join(fmt.Errorf("keep starts: %w", encErr), f.Close())
		}
		if torn(f) {
			line = append([]byte{'\n'}, line...)
		}
		if _, err = f.Write(line); err != nil {
			break
		}
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("keep starts: %w", err)
	}
	return nil
}

func encode(e Event) ([]byte, error) {
	e.V = 1
	e.Start.Argv = metrics.MaskArgv(e.Start.Argv)
	line, err := json.Marshal(e)
	return append(line, '\n'), err
}

// torn tells whether the last line of a file was never finished.
func torn(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return false
	}
	var last [1]byte
	_, err = f.ReadAt(last[:], info.Size()-1)
	return err == nil && last[0] != '\n'
}

// Load reads the history in a folder: every start once, oldest first, numbered.
// A missing file is an empty history. Lines that are torn or no events are
// skipped and counted.
func Load(dir string) (list []metrics.Start, skipped int, err error) {
	f, err := os.Open(filepath.Join(dir, fileName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read the history of starts: %w", err)
	}
	events, skipped, err := Read(f)
	err = errors.Join(err, f.Close())
	if err != nil {
		return nil, skipped, fmt.Errorf("read the history of starts: %w", err)
	}
	return Merge(nil, events), skipped, nil
}

// Read reads events, skipping what is none.
func Read(r io.Reader) (events []Event, skipped int, err error) {
	br := bufio.NewReaderSize(r, 64<<10)
	for {
		line, long, err := readLine(br)
		if trimmed := bytes.TrimSpace(line); len(trimmed) > 0 || long {
			var e Event
			if long || json.Unmarshal(trimmed, &e) != nil || e.V != 1 || e.Key == "" {
				skipped++
			} else {
				e.Start.ID = e.Key
				events = append(events, clean(e))
			}
		}
		if errors.Is(err, io.EOF) {
			return events, skipped, nil
		}
		if err != nil {
			return events, skipped, err
		}
	}
}

// readLine reads one line; of one that is too long only that it was.
func readLine(br *bufio.Reader) (line []byte, long bool, err error) {
	for {
		part, err := br.ReadSlice('\n')
		if !long {
			line = append(line, part...)
		}
		if len(line) > maxLine {
			line, long = nil, true
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, long, err
		}
	}
}

// clean makes the texts of an event fit for a screen: the file may have been
// written by another version, or by hand.
func clean(e Event) Event {
	s := &e.Start
	for _, t := range []*string{&s.ID, &s.Node, &s.Engine, &s.Version, &s.Model, &s.Label, &s.Dataset, &s.Outcome, &s.CauseTxt, &s.CausePhase, &s.Note, &s.GuardBroken, &s.Override, &s.KVDtype} {
		*t = metrics.Clean(*t, 400)
	}
	for i, a := range s.Argv {
		s.Argv[i] = metrics.Clean(a, 4000)
	}
	return e
}

// Merge folds events into a list of starts, which stays as it is, and gives them
// oldest first, numbered in that order. What a log alone told of a start and what
// was seen of its process become one.
func Merge(list []metrics.Start, events []Event) []metrics.Start {
	out := slices.Clone(list)
	events = slices.Clone(events)
	slices.SortStableFunc(events, func(a, b Event) int { return a.At.Compare(b.At) })
	for _, e := range events {
		i := match(out, e.Start)
		if i < 0 {
			out = append(out, e.Start)
			continue
		}
		out[i] = update(out[i], e.Start)
	}
	slices.SortStableFunc(out, func(a, b metrics.Start) int { return a.At.Compare(b.At) })
	for i := range out {
		out[i].No = i + 1
	}
	return out
}

// The first line of a log comes after the start of the process that wrote it, at
// most sameStart later; the clocks may differ by clockSlack.
const (
	sameStart  = 3 * time.Minute
	clockSlack = 5 * time.Second
)

// match finds a start in a list: by its id, else the nearest in time, where one
// of the two is known from a log only and neither speaks against it.
func match(list []metrics.Start, s metrics.Start) int {
	best, dist := -1, sameStart+1
	for i, o := range list {
		if o.ID == s.ID {
			return i
		}
		d := s.At.Sub(o.At) // log minus process
		if o.Imported {
			d = -d
		}
		if d >= -clockSlack && d < dist && o.Imported != s.Imported && !o.At.IsZero() && o.Engine == s.Engine && agree(o.Capacity, s.Capacity) {
			best, dist = i, d
		}
	}
	return best
}

func agree(a, b *float64) bool { return a == nil || b == nil || *a == *b }
