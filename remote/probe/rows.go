package probe

import (
	"bytes"
	"context"
	"fmt"
	"hash/fnv"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/jsonl"
)

const (
	headBytes  = 256
	guardBytes = 64
	fewBytes   = 8 << 10 // growth that is fetched and counted here
	judgeEvery = time.Minute
)

// rowCount is the state of counting one file. Newlines and bytes come from one
// read, so a file that grows meanwhile, or ends in the middle of a row, is
// counted right. The last 64 bytes that were seen are read again with each
// count: if they differ, the file was written anew. A little growth comes here
// and is counted here, which costs the node one process; more is counted there.
type rowCount struct {
	path, id  string
	off, rows int64
	head      []byte // first bytes, up to 256
	guard     []byte // up to 64 bytes before guardEnd
	guardEnd  int64
	size      int64 // of the stat before the last count
	mtime     int64
	started   bool
	done      bool
	torn      bool
	reset     string
	err       string
	judged    *metrics.RowsJudged
	judgedAt  time.Time
	judgedOff int64
	askedAt   time.Time // last count or look
	toldAt    time.Time // last frame
	fresh     bool      // a frame is due
	again     bool      // the file was found rewritten: count from the start
}

// failed notes why the file cannot be counted now; what was counted stays.
func (r *rowCount) failed(why string) {
	if r.err != why {
		r.err, r.fresh = why, true
	}
}

func (r *rowCount) restart(why string) {
	r.off, r.rows, r.head, r.guard, r.guardEnd = 0, 0, nil, nil, 0
	r.reset, r.done, r.torn = why, false, false
	r.judgedOff = 0
}

// countOps gives the count of one wanted file if it is due.
func (f *files) countOps(w metrics.Want, st metrics.FileStat) []op {
	r := f.rows[w.Path]
	if r == nil {
		r = &rowCount{path: w.Path}
		f.rows[w.Path] = r
	}
	now := f.clock()
	if r.started && (w.Every == 0 && r.done || now.Sub(r.askedAt) < w.Every-w.Every/8) {
		return nil
	}
	if !st.Exists || st.Dir || st.Err != "" {
		err := st.Err
		switch {
		case st.Dir:
			err = "is a directory"
		case err == "":
			err = "no such file"
		}
		r.failed(err)
		return nil
	}
	r.askedAt = now
	if w.Records {
		return f.recordsOps(r, st)
	}
	switch {
	case !r.started && w.Offset > 0 && w.ID == st.ID && w.Offset <= st.Size:
		return []op{f.resumeOp(r, w, st)}
	case r.started && r.id != st.ID:
		r.restart("replaced")
	case r.started && st.Size < r.off:
		r.restart("truncated")
	case r.started && r.done && st.Size == r.size && st.Mtime == r.mtime && r.err == "":
		r.fresh = true // the same again: the figure is as new as this stat
		return nil
	}
	r.started = true
	if st.Size-r.off > sliceFirst {
		r.id, r.size, r.mtime, r.done, r.fresh = st.ID, st.Size, st.Mtime, false, true
		return nil // in slices between the rounds
	}
	return []op{f.countOp(r, st, sliceFirst)}
}

// recordsMost is how large a text or table may be to be counted: it is read at
// once, in at most a second or two.
const recordsMost = 32 << 20

// recordsOps counts the records of a text or table once. A field in quotes may
// hold newlines: a record ends where the quotes so far are even.
func (f *files) recordsOps(r *rowCount, st metrics.FileStat) []op {
	r.started, r.done, r.fresh = true, true, true
	r.id, r.size, r.mtime = st.ID, st.Size, st.Mtime
	if st.Size > recordsMost {
		r.err = fmt.Sprintf("is not counted: it is larger than %d MiB", recordsMost>>20)
		return nil
	}
	program := `{q+=NF?NF-1:0} NF&&q%2==0{n++} END{print(n>0?n-1:0)}`
	if path.Ext(r.path) == ".txt" {
		program = `/[^ \t\r]/{n++} END{print n+0}`
	}
	return []op{{code: "awk -F'\"' '" + program + "' " + f.ref(r.path), parts: 1, bytes: 64, take: func(ps [][]byte) {
		n, err := strconv.ParseInt(strings.TrimSpace(string(ps[0])), 10, 64)
		if err != nil || n < 0 {
			r.err = "cannot be counted: no awk, or it cannot be read"
			return
		}
		r.err = ""
		r.rows, r.off, r.judgedOff = n, st.Size, st.Size // its records are no rows that could be judged
	}}}
}

// countOp counts at most n bytes from the offset on.
func (f *files) countOp(r *rowCount, st metrics.FileStat, n int64) op {
	if grown := st.Size - r.off; len(r.guard) > 0 && r.guardEnd == r.off && grown >= 0 && grown <= fewBytes && len(r.head) == headBytes {
		return f.fetchOp(r, st)
	}
	ref := f.ref(r.path)
	guard, head := len(r.guard), len(r.head) < headBytes && int64(len(r.head)) <= r.off
	end := min(st.Size, r.off+n)
	last := min(end, guardBytes)
	code := fmt.Sprintf("rw %d %d %s;s", r.off, n, ref)
	if last > 0 {
		code += fmt.Sprintf(";rd %d %d %s", end-last, last, ref)
	}
	code += ";s"
	if guard > 0 {
		code += fmt.Sprintf(";rd %d %d %s", r.guardEnd-int64(guard), guard, ref)
	}
	code += ";s"
	if head {
		code += fmt.Sprintf(";rd 0 %d %s", headBytes, ref)
	}
	return op{code: code, parts: 4, bytes: 1024, take: func(ps [][]byte) {
		if guard > 0 && len(ps[2]) == 0 && st.Size >= r.guardEnd {
			r.failed("cannot be read") // a file that was cut meanwhile is found by its next stat
			return
		}
		r.id, r.size, r.mtime, r.err = st.ID, st.Size, st.Mtime, ""
		r.fresh = true
		if !bytes.Equal(ps[2], r.guard) {
			r.rewritten(len(ps[2]) < guard)
			return
		}
		counts := strings.Fields(string(ps[0]))
		if len(counts) != 2 {
			r.err = "cannot be read"
			return
		}
		lines, err1 := strconv.ParseInt(counts[0], 10, 64)
		read, err2 := strconv.ParseInt(counts[1], 10, 64)
		if err1 != nil || err2 != nil || lines > read {
			r.err = "cannot be counted: unexpected answer of wc"
			return
		}
		if read == 0 && st.Size > r.off {
			r.err = "cannot be read"
		}
		r.rows += lines
		r.off += read
		if head {
			r.head = bytes.Clone(ps[3][:min(int64(len(ps[3])), r.off)])
		}
		if int64(len(ps[1])) == last && end <= r.off {
			r.guard, r.guardEnd = bytes.Clone(ps[1]), end
			r.torn = end == st.Size && last > 0 && ps[1][last-1] != '\n'
		}
		r.done = r.off >= st.Size
	}}
}

// fetchOp reads what a file has grown by, with the guard before it.
func (f *files) fetchOp(r *rowCount, st metrics.FileStat) op {
	guard := int64(len(r.guard))
	n := guard + st.Size - r.off
	return op{code: fmt.Sprintf("rd %d %d %s", r.off-guard, n, f.ref(r.path)), parts: 1, bytes: n, take: func(ps [][]byte) {
		data := ps[0]
		if len(data) == 0 {
			r.failed("cannot be read")
			return
		}
		r.id, r.size, r.mtime, r.err = st.ID, st.Size, st.Mtime, ""
		r.fresh = true
		if !bytes.HasPrefix(data, r.guard) {
			r.rewritten(int64(len(data)) < guard)
			return
		}
		grown := data[guard:]
		r.rows += int64(bytes.Count(grown, []byte{'\n'}))
		r.off += int64(len(grown))
		r.guard, r.guardEnd = bytes.Clone(tail(data, guardBytes)), r.off
		r.torn = data[len(data)-1] != '\n'
		r.done = r.off >= st.Size
	}}
}

// rewritten begins anew with a file that is not the one counted so far.
func (r *rowCount) rewritten(short bool) {
	if short {
		r.restart("truncated")
	} else {
		r.restart("rewritten")
	}
	r.again = true
}

// resumeOp takes up an earlier count, if the file still begins as it did.
func (f *files) resumeOp(r *rowCount, w metrics.Want, st metrics.FileStat) op {
	ref := f.ref(r.path)
	guard := min(w.Offset, guardBytes)
	code := fmt.Sprintf("rd 0 %d %s;s;rd %d %d %s", headBytes, ref, w.Offset-guard, guard, ref)
	return op{code: code, parts: 2, bytes: 512, take: func(ps [][]byte) {
		r.started, r.again = true, true
		r.id = st.ID
		if headSum(ps[0], w.Head) != w.Head || int64(len(ps[1])) != guard {
			r.reset = "rewritten"
			return
		}
		r.off, r.rows = w.Offset, w.Rows
		r.head, r.guard = bytes.Clone(ps[0][:min(int64(len(ps[0])), w.Offset)]), bytes.Clone(ps[1])
		r.guardEnd = w.Offset
	}}
}

// headSum is the checksum of the first bytes, "length:sum". With like, it takes
// as many bytes as like did.
func headSum(head []byte, like string) string {
	if n, _, ok := strings.Cut(like, ":"); ok {
		head = head[:min(int64(len(head)), max(0, number(n)))]
	}
	if len(head) == 0 {
		return ""
	}
	h := fnv.New64a()
	h.Write(head)
	return fmt.Sprintf("%d:%016x", len(head), h.Sum64())
}

// judge looks at the newest rows of a file that has grown, once a minute. The
// bytes come here and go no further.
func (f *files) judge(ctx context.Context, r *rowCount) {
	if !r.done || r.off == 0 || r.off == r.judgedOff || !r.judgedAt.IsZero() && f.clock().Sub(r.judgedAt) < judgeEvery {
		return
	}
	from := max(0, r.off-jsonl.MaxTail)
	n := r.off - from
	r.judgedAt, r.judgedOff = f.clock(), r.off
	f.run(ctx, []op{{code: fmt.Sprintf("rd %d %d %s", from, n, f.ref(r.path)), parts: 1, bytes: n, take: func(ps [][]byte) {
		if len(ps[0]) == 0 {
			return
		}
		j := jsonl.Judge(ps[0], from == 0, f.p.opts.Salt)
		r.judged, r.fresh = &j, true
	}}}, f.p.files.limit())
}

func (f *files) emitRows(r *rowCount) {
	r.toldAt = f.clock()
	f.p.emitJSON(metrics.KindRows, r.path, time.Time{}, metrics.RowsFact{
		Path: r.path, ID: r.id, Size: max(r.size, r.off), Mtime: r.mtime, Rows: r.rows, Offset: r.off,
		Head: headSum(r.head, ""), Done: r.done, Torn: r.torn, Reset: r.reset, Err: r.err, Judged: r.judged,
	})
	r.judged, r.reset = nil, ""
}
