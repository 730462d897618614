package simnode

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/remote/simnode/model"
)

// countedFile is where the program keeps what a visit had counted.
const countedFile = "counted.json"

// writeVisit leaves what an earlier visit would have counted, just
// before the client's start: the rows that landed since can then be told.
func writeVisit(p places, past model.Past, clientStarted time.Time) error {
	if clientStarted.IsZero() {
		return nil
	}
	saved := metrics.Saved{Node: nodeName, Files: []metrics.SavedFile{}}
	for _, part := range past.Parts {
		if part.Base == 0 {
			continue
		}
		f, err := counted(p.file(part.File), part.Base)
		if err != nil {
			return err
		}
		f.At = clientStarted.Add(-10 * time.Second)
		saved.Files = append(saved.Files, f)
	}
	data, err := json.Marshal(saved)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(p.state(), countedFile), data, 0o600)
}

// counted is a file of which the first rows were counted.
func counted(path string, rows int) (metrics.SavedFile, error) {
	out := metrics.SavedFile{Path: path, Rows: int64(rows)}
	f, err := os.Open(path)
	if err != nil {
		return out, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return out, err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return out, fmt.Errorf("stat of %s has no inode", path)
	}
	out.ID = fmt.Sprintf("%d:%d", stat.Dev, stat.Ino)
	r := bufio.NewReaderSize(f, 1<<20)
	head, err := r.Peek(256)
	if err != nil && len(head) == 0 {
		return out, err
	}
	sum := fnv.New64a()
	sum.Write(head)
	out.Head = fmt.Sprintf("%d:%016x", len(head), sum.Sum64())
	for range rows {
		line, err := r.ReadSlice('\n')
		for errors.Is(err, bufio.ErrBufferFull) {
			out.Offset += int64(len(line))
			line, err = r.ReadSlice('\n')
		}
		if err != nil {
			return out, fmt.Errorf("%s has less than %d rows: %w", path, rows, err)
		}
		out.Offset += int64(len(line))
	}
	return out, nil
}
