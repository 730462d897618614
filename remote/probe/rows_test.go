package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// fileWorker is the files worker of a probe whose rounds the test calls.
func fileWorker(t *testing.T, n *localNode, wants ...metrics.Want) *files {
	t.Helper()
	p := New(n, Options{})
	t.Cleanup(p.closeChannels)
	if change, program := n.program, p.files.program; change != nil {
		p.files.program = func(nonce string) string { return change(program(nonce)) }
	}
	p.SetWants(wants)
	f := newFiles(p)
	now := time.Unix(1_800_000_000, 0)
	f.clock = func() time.Time { now = now.Add(20 * time.Second); return now }
	return f
}

// settle runs rounds and slices until nothing is left to do.
func settle(t *testing.T, f *files) {
	t.Helper()
	f.round(context.Background())
	for i := 0; ; i++ {
		if _, worked := f.background(context.Background()); !worked {
			break
		}
		if i > 2000 {
			t.Fatal("the slices do not end")
		}
	}
}

func newlines(t *testing.T, path string) int64 {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return int64(bytes.Count(data, []byte{'\n'}))
}

func TestRowsRandomWalk(t *testing.T) { walkRows(t, newLocalNode(t), 300, 1, 1) }

// walkRows changes a file at random and compares the count with the file after
// each step, or now and then: after at most so many steps.
func walkRows(t *testing.T, n *localNode, steps int, seed uint64, between int) {
	path := t.TempDir() + "/B1 it's.jsonl"
	f := fileWorker(t, n, metrics.Want{Kind: metrics.WantRows, Path: path, Every: time.Second})
	rnd := rand.New(rand.NewPCG(seed, 2))
	resets := map[string]int{}
	f.p.out = func(fr metrics.Frame) {
		if fr.Kind == metrics.KindRows {
			r, _ := metrics.Decode[metrics.RowsFact](fr)
			resets[r.Reset]++
		}
	}
	serial := 0
	some := func() string {
		var b strings.Builder
		for range 1 + rnd.IntN(6) {
			serial++
			fmt.Fprintf(&b, `{"id":%d,"text":"`, serial)
			for range rnd.IntN(400) {
				b.WriteByte(byte('a' + rnd.IntN(26)))
			}
			b.WriteString("\"}\n")
		}
		text := b.String()
		if rnd.IntN(3) == 0 {
			text = text[:len(text)-1-rnd.IntN(8)] // its end comes later, or never
		}
		return text
	}
	write(t, path, "")
	for step := range steps {
		what := rnd.IntN(20)
		if st, err := os.Stat(path); err == nil && st.Size() > 1<<20 {
			what = 15 // or the files of a long walk grow without bound
		}
		switch {
		case what < 14:
			add(t, path, some())
		case what == 14:
			st, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(path, rnd.Int64N(st.Size()+1)); err != nil {
				t.Fatal(err)
			}
			add(t, path, some()+some())
		case what == 15:
			write(t, path, some()+some()+some())
		case what == 16:
			write(t, path+".new", some()+some())
			if err := os.Rename(path+".new", path); err != nil {
				t.Fatal(err)
			}
		case what == 17:
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			write(t, path, some()+string(data)+some())
		case what == 18:
			write(t, path, "")
		case what == 19:
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			settle(t, f)
			write(t, path, some())
		}
		if between > 1 && rnd.IntN(between) > 0 && step < steps-1 {
			continue
		}
		settle(t, f)
		r := f.rows[path]
		if want := newlines(t, path); r.rows != want || !r.done {
			t.Fatalf("step %d (%d): %d rows, the file has %d; counted to %d of %d, reset %q, error %q", step, what, r.rows, want, r.off, r.size, r.reset, r.err)
		}
	}
	if steps >= 300 && (resets["replaced"] == 0 || resets["truncated"] == 0 || resets["rewritten"] == 0) {
		t.Errorf("the walk met no reset of some kind: %v", resets)
	}
}

func TestFirstCountInSlices(t *testing.T) {
	path := t.TempDir() + "/big.jsonl"
	row := strings.Repeat("y", 1023) + "\n"
	write(t, path, strings.Repeat(row, 20<<10)+"torn") // 20 MiB
	f := fileWorker(t, newLocalNode(t), metrics.Want{Kind: metrics.WantRows, Path: path, Every: time.Second})
	var seen []metrics.RowsFact
	f.p.out = func(fr metrics.Frame) {
		if fr.Kind == metrics.KindRows {
			r, _ := metrics.Decode[metrics.RowsFact](fr)
			seen = append(seen, r)
		}
	}
	settle(t, f)
	if len(seen) < 3 {
		t.Fatalf("only %d frames tell the progress", len(seen))
	}
	for i, r := range seen {
		last := i == len(seen)-1
		if r.Done != last || r.Size != 20<<20+4 || i > 0 && r.Offset <= seen[i-1].Offset {
			t.Errorf("frame %d: %+v", i, r)
		}
	}
	if r := seen[len(seen)-1]; r.Rows != 20<<10 || !r.Torn || r.Offset != r.Size {
		t.Errorf("last: %+v", r)
	}
}

func TestRowsResume(t *testing.T) {
	path := t.TempDir() + "/rows.jsonl"
	write(t, path, strings.Repeat("{\"row\":1}\n", 100))
	n := newLocalNode(t)
	want := metrics.Want{Kind: metrics.WantRows, Path: path, Every: time.Second}
	f := fileWorker(t, n, want)
	settle(t, f)
	r := f.rows[path]
	add(t, path, "{\"row\":2}\n")

	// The earlier count is made wrong on purpose: only a count that is really
	// taken up shows it.
	want.ID, want.Head, want.Offset, want.Rows = r.id, headSum(r.head, ""), r.off, 5000
	f = fileWorker(t, n, want)
	settle(t, f)
	if got := f.rows[path].rows; got != 5001 {
		t.Errorf("resumed to %d rows, want 5001", got)
	}
	want.Head = "256:0000000000000000"
	f = fileWorker(t, n, want)
	settle(t, f)
	if got := f.rows[path].rows; got != 101 {
		t.Errorf("another head: %d rows, want a count from the start, 101", got)
	}
	want.ID = "1:1"
	f = fileWorker(t, n, want)
	settle(t, f)
	if got := f.rows[path].rows; got != 101 {
		t.Errorf("another file: %d rows, want 101", got)
	}
}

// Where dd cannot skip bytes by itself, it only moves the shared offset.
func TestPlainDD(t *testing.T) {
	n := newLocalNode(t)
	n.program = func(text string) string {
		plain := strings.Replace(text, "\nK= ", "\nK=0 ", 1)
		if plain == text {
			t.Error("the program does not set K where this test looks for it")
		}
		return plain
	}
	walkRows(t, n, 60, 5, 1)
	backfillLog(t, n)
	screenReads(t, n)
}

func TestRecords(t *testing.T) { countRecords(t, newLocalNode(t)) }

// Records are counted once, whatever quotes hold and however the last one ends.
func countRecords(t *testing.T, n *localNode) {
	dir := t.TempDir()
	want := map[string]int64{
		write(t, dir+"/plain.csv", "id,text\n1,a\n2,b\n"):                                           2,
		write(t, dir+"/quoted a=b.csv", "id,text\r\n1,\"two\r\n\r\nlines, \"\"quoted\"\"\"\r\n2,b"): 2,
		write(t, dir+"/t.tsv", "id\ttext\n\n1\tx\n"):                                                1,
		write(t, dir+"/head.csv", "id,text\n"):                                                      0,
		write(t, dir+"/empty.csv", ""):                                                              0,
		write(t, dir+"/lines.txt", "a\n\n  \nb \"\nc"):                                              3,
	}
	var wants []metrics.Want
	for path := range want {
		wants = append(wants, metrics.Want{Kind: metrics.WantRows, Path: path, Records: true})
	}
	wants = append(wants, metrics.Want{Kind: metrics.WantRows, Path: dir + "/none.txt", Records: true})
	w := watch(t, n, Options{}, wants...)
	for path, rows := range want {
		w.until(path, decoded(metrics.KindRows, func(f metrics.RowsFact) bool {
			if f.Path != path {
				return false
			}
			if f.Rows != rows || !f.Done || f.Err != "" || f.Judged != nil {
				t.Errorf("%s: %+v, want %d", path, f, rows)
			}
			return true
		}))
	}
	w.until("what is missing", decoded(metrics.KindRows, func(f metrics.RowsFact) bool { return f.Path == dir+"/none.txt" && f.Err == "no such file" }))
}

func TestRowsUnreadable(t *testing.T) {
	dir := t.TempDir()
	fifo := dir + "/fifo.jsonl"
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	f := fileWorker(t, newLocalNode(t),
		metrics.Want{Kind: metrics.WantRows, Path: dir + "/none.jsonl", Every: time.Second},
		metrics.Want{Kind: metrics.WantRows, Path: fifo, Every: time.Second},
		metrics.Want{Kind: metrics.WantLog, Path: fifo},
		metrics.Want{Kind: metrics.WantRows, Path: dir, Every: time.Second})
	errs := map[string]string{}
	f.p.out = func(fr metrics.Frame) {
		if fr.Kind == metrics.KindRows {
			r, _ := metrics.Decode[metrics.RowsFact](fr)
			errs[r.Path] = r.Err
		}
	}
	settle(t, f)
	if errs[dir+"/none.jsonl"] != "no such file" || errs[dir] != "is a directory" || errs[fifo] != "is a pipe" {
		t.Errorf("reasons: %q", errs)
	}
}

// A file that cannot be read any more keeps its count and says why; nothing of
// that is a file that began anew.
func TestRowsBecomeUnreadable(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{filepath.Dir(dir), dir} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	rows := write(t, dir+"/rows.jsonl", strings.Repeat("{\"a\":1}\n", 40))
	shell := []string{"sh", "-s"}
	if os.Geteuid() == 0 {
		if _, err := exec.LookPath("setpriv"); err != nil {
			t.Skip("root may read everything, and there is no setpriv to be somebody else")
		}
		shell = append([]string{"setpriv", "--reuid", "65534", "--clear-groups", "--regid", "65534"}, shell...)
	}
	f := fileWorker(t, newLocalNode(t, shell...), metrics.Want{Kind: metrics.WantRows, Path: rows, Every: time.Second})
	var fact metrics.RowsFact
	var resets []string
	f.p.out = func(fr metrics.Frame) {
		if fr.Kind == metrics.KindRows {
			fact, _ = metrics.Decode[metrics.RowsFact](fr)
			if fact.Reset != "" {
				resets = append(resets, fact.Reset)
			}
		}
	}
	grow := func() {
		old, err := os.ReadFile(rows)
		if err != nil || os.WriteFile(rows, append(old, "{\"a\":2}\n"...), 0o644) != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		name string
		do   func() error
		err  string
		rows int64
	}{
		{"at first", func() error { return nil }, "", 40},
		{"it may not be read", func() error { return os.Chmod(rows, 0o200) }, errNotReadable, 40},
		{"it may be read again", func() error { defer grow(); return os.Chmod(rows, 0o644) }, "", 41},
		{"it is moved and a directory made", func() error { return errors.Join(os.Rename(rows, rows+".old"), os.Mkdir(rows, 0o755)) }, "is a directory", 41},
		{"it is there again", func() error { return errors.Join(os.Remove(rows), os.Rename(rows+".old", rows)) }, "", 41},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		settle(t, f)
		if fact.Err != step.err || fact.Rows != step.rows || len(resets) > 0 {
			t.Errorf("%s: error %q with %d rows, want %q with %d; begun anew: %v", step.name, fact.Err, fact.Rows, step.err, step.rows, resets)
		}
	}
}
