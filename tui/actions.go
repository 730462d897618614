package tui

import (
	"context"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/runvigil/runvigil/metrics"
)

// Actions is what the screen can ask for by hand. Its answers are masked and
// cleaned by whoever implements it; they are shown and neither folded nor
// recorded. All methods but Answer may take as long as the context allows; they
// run beside the screen, never in it.
type Actions interface {
	// Put hands an operator's frame (ack, note, config with a target) to the
	// fold. Its At is zero: the receiver stamps it.
	Put(ctx context.Context, f metrics.Frame) error
	// NewestRow reads the last whole row of a JSONL file.
	NewestRow(ctx context.Context, path string) (Row, error)
	// FindLog tells which file of the node a name means, where ~/ is the
	// login's home, or why it cannot be followed as a log.
	FindLog(ctx context.Context, name string) (LogFile, error)
	// Log reads a part of a log that the snapshot's tail does not hold.
	Log(ctx context.Context, q LogQuery) (LogSlice, error)
	// Shell gives a shell on the node over the same connection, to be run on
	// the terminal while the screen is away. Its context lives as long as the
	// screen.
	Shell(ctx context.Context) (tea.ExecCommand, error)
	// Answer answers a prompt; ok is false where the person declined. It must
	// not block.
	Answer(id int, text string, ok bool)
	// Save keeps a text in a file (0600) of this machine and gives its path.
	// Without a name it is the copy for a terminal that refuses the clipboard,
	// which the next one replaces; else a new file, by a path or by a bare name
	// in the folder of copies.
	Save(ctx context.Context, name, text string) (path string, err error)
}

// A Reconnecter is an Actions that can try a connection again which waits for a
// person (Link.Waiting); without it there is no key for that.
type Reconnecter interface {
	Reconnect(ctx context.Context) error
}

// Row is one row of a dataset as bytes of JSON, at most a few hundred kB.
type Row struct {
	Path  string
	JSON  []byte
	Bytes int64 // size of the whole row, larger than JSON where it was cut
	Torn  bool  // a further row has begun and is not ended
}

// LogFile is what a name for a log means on the node.
type LogFile struct {
	Path    string   // whole; empty where a folder was named
	Missing bool     // it is not there yet
	Newest  []string // logs of a folder that was named, the newest first
}

// LogQuery asks for lines of a log: with Place that line, else the moment at
// which it was; with At the first line whose own time is not before it, both
// with lines around it. Else it means the lines before Before, or towards Newer
// ones those from After on: with Search or Errors the nearest that fits, with
// lines around it; without, those next to that offset.
type LogQuery struct {
	Place  metrics.LogPlace
	Path   string
	Before int64 // byte offset; -1: the end
	Newer  bool
	After  int64 // byte offset
	At     time.Time
	Search string // plain text
	Fold   bool   // the search ignores case
	Errors bool   // search for lines of errors
	Max    int    // lines
}

// LogSlice is a run of whole lines.
type LogSlice struct {
	Path  string
	Lines []metrics.LogLine
	First int64 // number of Lines[0] in the file, 0 unknown
	Start int64 // byte offset of Lines[0]
	End   int64 // byte offset after the last line
	Hit   int   // index of the line that was sought, -1: none
	// Missing says why Hit is not the line that Place means, "" where it is.
	Missing string
}

// PromptKind is what a prompt asks for.
type PromptKind int

// The prompts of a connection.
const (
	PromptText     PromptKind = iota // shown while typed, such as a one-time code
	PromptSecret                     // passphrase or password
	PromptHostKey                    // yes or no, with a fingerprint
	PromptTouch                      // nothing to type: touch the key
	PromptWithdraw                   // the prompt of that ID is no longer wanted
)

// Prompt is a question of the connection to the person.
type Prompt struct {
	ID          int
	Kind        PromptKind
	Title       string // e.g. "Password for root@gpu7"
	Text        string
	Fingerprint string
}

// callLimit bounds what is asked for by hand, searchLimit the search of a whole
// log, which a key can stop.
const (
	callLimit   = 30 * time.Second
	searchLimit = 10 * time.Minute
)
