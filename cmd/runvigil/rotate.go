package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/runvigil/runvigil/cmd/runvigil/config"
	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/board"
	"github.com/runvigil/runvigil/metrics/recording"
)

// A frameWriter keeps frames.
type frameWriter interface{ Write(metrics.Frame) error }

// A rotating recorder keeps a watcher's frames in files of bounded size and age
// and removes the oldest. Each file is a recording of its own: it begins with
// the newest of the frames that say what everything else means. A disk that
// fails ends the file and nothing else: that is told, and another is begun later.
type rotating struct {
	cfg  config.Rotation
	node string

	file   *os.File
	count  *counter
	w      *recording.Writer
	begun  time.Time // of the open file, by the frames' clock
	opened []string  // bases of frames that every file begins with, in order
	base   map[string]metrics.Frame
	failed time.Time // when the disk failed, by the frames' clock; zero: it did not
	tell   func(text string)
}

// rotateRetry is how long after a failure a new file is begun.
const rotateRetry = 10 * time.Minute

// baseKeep bounds the start sections of logs that are carried into a new file.
const baseKeep = 1 << 20

type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// newRotating gives a recorder; nil where the configuration names no folder.
func newRotating(cfg config.Rotation, node string) *rotating {
	if cfg.Dir == "" {
		return nil
	}
	return &rotating{cfg: cfg, node: node, base: map[string]metrics.Frame{}}
}

// Write keeps a frame. It never fails: the screen goes on without a recording.
func (r *rotating) Write(f metrics.Frame) error {
	r.remember(f)
	again := !r.failed.IsZero()
	if again && f.At.Sub(r.failed) < rotateRetry {
		return nil
	}
	if err := r.write(f); err != nil {
		r.failed = f.At
		slog.Error("the recording stopped", "error", err, "next", rotateRetry)
		if err := r.end(); err != nil {
			slog.Warn("end the recording", "error", err)
		}
		if !again {
			r.say(fmt.Sprintf("the recording stopped: %v; make room in %s; it is tried again every %.0f min", bare(err), r.cfg.Dir, rotateRetry.Minutes()))
		}
	} else if again {
		r.failed = time.Time{}
		r.say("the recording goes on in " + r.file.Name())
	}
	return nil
}

func (r *rotating) say(text string) {
	if r.tell != nil {
		r.tell(text)
	}
}

func (r *rotating) write(f metrics.Frame) error {
	if r.w != nil && f.Kind == metrics.KindTick && (r.count.n >= r.cfg.FileSize || f.At.Sub(r.begun) >= r.cfg.FileAge) {
		if err := r.end(); err != nil {
			return err
		}
	}
	if r.w == nil {
		return r.begin(f) // f is among what it begins with, or is written there
	}
	return r.w.Write(f)
}

// begin opens the next file.
func (r *rotating) begin(f metrics.Frame) error {
	if err := os.MkdirAll(r.cfg.Dir, 0o700); err != nil {
		return fmt.Errorf("make the folder for recordings: %w", err)
	}
	name := r.prefix() + f.At.UTC().Format("20060102T150405.000Z") + ".rv"
	file, err := os.OpenFile(filepath.Join(r.cfg.Dir, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("make a recording: %w", err)
	}
	r.file, r.count, r.begun = file, &counter{w: file}, f.At
	if err := r.beginWith(f); err != nil {
		return errors.Join(err, os.Remove(file.Name())) // it holds nothing that is not known
	}
	r.prune(f.At)
	return nil
}

// beginWith writes what a file begins with: what is known, then a frame.
func (r *rotating) beginWith(f metrics.Frame) error {
	var err error
	if r.w, err = recording.NewWriter(r.count); err != nil {
		return err
	}
	written := false
	for _, k := range r.opened {
		b := r.base[k]
		written = written || b.Kind == f.Kind && b.At.Equal(f.At) && b.Name == f.Name
		if err := r.w.Write(moved(b, f.At)); err != nil {
			return err
		}
	}
	if written {
		return nil
	}
	return r.w.Write(f)
}

// moved gives a frame of before a new receive time; a session's own clock moves
// with it, so that the difference of the two clocks stays.
func moved(f metrics.Frame, at time.Time) metrics.Frame {
	if f.Kind == metrics.KindSession {
		if s, err := metrics.Decode[metrics.Session](f); err == nil {
			d := at.Sub(f.At)
			s.Now, s.UptimeS = s.Now.Add(d), s.UptimeS+d.Seconds()
			return metrics.JSONFrame(f.Kind, f.Name, at, s)
		}
	}
	f.At = at
	return f
}

// remember keeps the newest frames without which a later file means nothing:
// what was told, the session, processes, files, and the start sections of logs.
func (r *rotating) remember(f metrics.Frame) {
	key := string(f.Kind) + " " + f.Name
	switch f.Kind {
	case metrics.KindConfig, metrics.KindGuards, metrics.KindStarts, metrics.KindSaved, metrics.KindSession, metrics.KindLink,
		metrics.KindGPUStatic, metrics.KindGPUApps, metrics.KindScan, metrics.KindFiles, metrics.KindDir, metrics.KindDisk, metrics.KindRows:
	case metrics.KindLog:
		h, raw, err := metrics.DecodeChunk[metrics.LogHeader](f.Data)
		if err != nil || h.Backfill != 1 || len(raw) > baseKeep {
			return
		}
	default:
		return
	}
	if _, again := r.base[key]; !again {
		r.opened = append(r.opened, key)
	}
	r.base[key] = f
}

func (r *rotating) prefix() string { return url.PathEscape(r.node) + "-" }

// prune removes this node's oldest recordings beyond the bounds, never the open one.
func (r *rotating) prune(now time.Time) {
	list, err := keptRecordings(r.cfg.Dir, r.prefix())
	if err != nil {
		slog.Warn("look at recordings", "error", err)
		return
	}
	total := r.cfg.FileSize // what the open one may become
	for _, o := range slices.Backward(list) {
		if r.file != nil && o.path == r.file.Name() {
			continue
		}
		total += o.size
		if total > r.cfg.Total || now.Sub(o.at) > r.cfg.MaxAge {
			if err := os.Remove(o.path); err != nil {
				slog.Warn("remove an old recording", "error", err)
			}
		}
	}
}

// keptRecording is one file of a watcher, which began at a time.
type keptRecording struct {
	path string
	size int64
	at   time.Time
}

// keptRecordings lists a node's files in a folder, oldest first.
func keptRecordings(dir, prefix string) ([]keptRecording, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var list []keptRecording
	for _, e := range entries {
		stamp, ok := strings.CutPrefix(strings.TrimSuffix(e.Name(), ".rv"), prefix)
		at, err := time.Parse("20060102T150405.000Z", stamp)
		if !ok || err != nil || !strings.HasSuffix(e.Name(), ".rv") {
			continue
		}
		if info, err := e.Info(); err == nil {
			list = append(list, keptRecording{filepath.Join(dir, e.Name()), info.Size(), at})
		}
	}
	slices.SortFunc(list, func(a, b keptRecording) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.path, b.path)) })
	return list, nil
}

// foldRecordings folds what a watcher of a node kept since a moment into a board,
// file by file, and gives the time of the last frame; zero where nothing is kept.
func foldRecordings(ctx context.Context, cfg config.Rotation, node string, since time.Time, b *board.Board) (last time.Time, err error) {
	if cfg.Dir == "" {
		return last, nil
	}
	list, err := keptRecordings(cfg.Dir, (&rotating{node: node}).prefix())
	if errors.Is(err, fs.ErrNotExist) {
		return last, nil
	}
	for i, k := range list {
		if i+1 < len(list) && !list[i+1].at.After(since) {
			continue // it ended before
		}
		if err = foldRecording(ctx, k.path, b, &last); err != nil {
			break
		}
	}
	if err != nil {
		return last, fmt.Errorf("read what was recorded of %s: %w", node, err)
	}
	return last, nil
}

func foldRecording(ctx context.Context, path string, b *board.Board, last *time.Time) error {
	r, file, err := openRecording(path)
	if err != nil {
		return err
	}
	defer file.Close()
	defer r.Close()
	for {
		f, err := r.Next()
		if errors.Is(err, io.EOF) || errors.Is(err, recording.ErrTorn) {
			return nil // the newest one may still be written
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if !f.At.Before(*last) {
			b.Apply(f)
			*last = f.At
		}
	}
}

// end ends the open file.
func (r *rotating) end() error {
	var err error
	if r.w != nil {
		err = r.w.Close()
	}
	if r.file != nil {
		err = errors.Join(err, r.file.Close())
	}
	r.w, r.file = nil, nil
	return err
}

// close ends the recording.
func (r *rotating) close() {
	if err := r.end(); err != nil {
		slog.Warn("end the recording", "error", err)
	}
}
