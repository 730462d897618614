package tui

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/runvigil/runvigil/metrics"
)

// memoryAges is how close together moments are kept, by their age. Slots are
// aligned to absolute time, so that what is kept does not depend on when it is
// thinned.
var memoryAges = []struct{ age, every time.Duration }{
	{time.Hour, 10 * time.Second}, {12 * time.Hour, time.Minute}, {72 * time.Hour, 5 * time.Minute},
}

// A memory keeps snapshots as they were shown, for looking back: at most about
// 1,900 over 72 h, packed against one another to between one and two kilobytes
// each. What hours already hold by themselves (series, logs, events) stays out.
// The zero memory is ready.
type memory struct {
	kept []moment // oldest first
	book *book
	last *metrics.Snapshot // the newest that was unpacked
}

// A moment is one packed snapshot.
type moment struct {
	at     time.Time
	packed []byte
	book   *book
}

// A book is what later snapshots are packed against: one of them, in full.
type book struct {
	raw  []byte
	pack *zstd.Encoder
	used int
}

// worn tells that a new book is worth its size: snapshots have changed so much
// that this one no longer helps. The first of a screen, when nothing was known
// yet, is never good.
func (b *book) worn(packed, raw int) bool {
	return packed > raw/8 && (b.used >= 32 || len(b.raw) < raw/2)
}

// keep remembers a snapshot unless one of the same ten seconds is kept. A
// replay that goes back forgets what comes after. What cannot be packed (no
// snapshot of a board is such) is not kept, and the screen says so of that time.
func (k *memory) keep(s *metrics.Snapshot) {
	n := len(k.kept)
	for n > 0 && k.kept[n-1].at.After(s.At) {
		n--
	}
	k.kept = k.kept[:n]
	if n > 0 && slot(k.kept[n-1].at, memoryAges[0].every) == slot(s.At, memoryAges[0].every) {
		return
	}
	lean := *s
	lean.Series, lean.Logs, lean.Events, lean.History, lean.Notes, lean.Kernel = nil, nil, nil, nil, nil, nil
	lean.Config, lean.Saved = metrics.Config{}, metrics.Saved{}
	raw, err := json.Marshal(&lean)
	if err != nil {
		return
	}
	m := moment{at: s.At}
	if k.book != nil {
		m.packed = k.book.pack.EncodeAll(raw, nil)
		k.book.used++
	}
	if k.book == nil || k.book.worn(len(m.packed), len(raw)) {
		fresh, err := newBook(raw)
		if err != nil {
			return
		}
		if k.book != nil {
			k.book.pack = nil // nothing more is packed against it
		}
		k.book = fresh
		m.packed = k.book.pack.EncodeAll(raw, nil)
	}
	m.packed, m.book = bytes.Clone(m.packed), k.book
	k.kept = append(k.kept, m)
	k.thin(s.At)
}

// newBook makes a book of one snapshot.
func newBook(raw []byte) (*book, error) {
	pack, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithWindowSize(1<<17), zstd.WithLowerEncoderMem(true), zstd.WithEncoderDictRaw(1, raw))
	if err != nil {
		return nil, err
	}
	return &book{raw: raw, pack: pack}, nil
}

// thin drops what lies too close together for its age.
func (k *memory) thin(now time.Time) {
	before := int64(-1)
	k.kept = slices.DeleteFunc(k.kept, func(m moment) bool {
		every := spacing(now.Sub(m.at))
		if every == 0 {
			return true
		}
		s := slot(m.at, every)
		drop := every > memoryAges[0].every && s == before
		before = s
		return drop
	})
}

// spacing is how close moments of an age lie, 0 where none are kept.
func spacing(age time.Duration) time.Duration {
	for _, a := range memoryAges {
		if age <= a.age {
			return a.every
		}
	}
	return 0
}

func slot(t time.Time, every time.Duration) int64 { return t.Unix() / int64(every/time.Second) }

// near gives the index of the newest moment up to t; ok is false where the
// screen did not look then.
func (k *memory) near(now, t time.Time) (i int, ok bool) {
	i, found := slices.BinarySearchFunc(k.kept, t, func(m moment, t time.Time) int { return m.at.Compare(t) })
	if !found {
		i--
	}
	return i, i >= 0 && t.Sub(k.kept[i].at) < 2*spacing(now.Sub(t))
}

// after gives the first moment after t.
func (k *memory) after(t time.Time) (time.Time, bool) {
	for i := len(k.kept) - 1; i >= 0; i-- {
		if !k.kept[i].at.After(t) {
			if i+1 == len(k.kept) {
				return time.Time{}, false
			}
			return k.kept[i+1].at, true
		}
	}
	return time.Time{}, false
}

// recall unpacks a moment, nil where that fails.
func (k *memory) recall(i int) *metrics.Snapshot {
	m := k.kept[i]
	if k.last != nil && k.last.At.Equal(m.at) {
		return k.last
	}
	unpack, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderDictRaw(1, m.book.raw))
	if err != nil {
		return nil
	}
	defer unpack.Close()
	raw, err := unpack.DecodeAll(m.packed, nil)
	if err != nil {
		return nil
	}
	var s metrics.Snapshot
	if json.Unmarshal(raw, &s) != nil {
		return nil
	}
	k.last = &s
	return k.last
}
