package main

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/metrics/board"
	"github.com/runvigil/runvigil/metrics/recording"
	"github.com/runvigil/runvigil/remote/simnode/frames"
	"github.com/runvigil/runvigil/remote/simnode/model"
	"github.com/runvigil/runvigil/testdata"
)

var update = flag.Bool("update", false, "rewrite testdata/story.rv")

// storySeconds is how much of the story the embedded recording holds.
const storySeconds = 180

// recordStory runs the default scenario in virtual time.
func recordStory(t *testing.T) ([]byte, *metrics.Snapshot) {
	t.Helper()
	sc, err := model.Lookup("story")
	if err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	w, err := recording.NewWriter(&buf)
	if err != nil {
		t.Fatal(err)
	}
	src := frames.New(sc, time.Date(2026, 2, 24, 11, 16, 7, 0, time.UTC))
	b := board.New()
	keep := func(fs []metrics.Frame) {
		for _, f := range fs {
			b.Apply(f)
			if err := w.Write(f); err != nil {
				t.Fatal(err)
			}
		}
	}
	keep(src.Opening())
	for range storySeconds {
		keep(src.Next(b.Wants()))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes(), b.Snapshot()
}

// TestEmbeddedStory holds the shipped recording to the simulated node, byte for byte.
func TestEmbeddedStory(t *testing.T) {
	want, live := recordStory(t)
	if *update {
		if err := os.WriteFile(filepath.Join("..", "..", "testdata", "story.rv"), want, 0o644); err != nil {
			t.Fatal(err)
		}
	} else if !bytes.Equal(want, testdata.Story) {
		t.Fatalf("testdata/story.rv (%d bytes) is not what the frames driver gives (%d bytes): run `go test ./cmd/runvigil -run EmbeddedStory -update` and look at what changed", len(testdata.Story), len(want))
	}
	replayed := replayAll(t, want)
	if d := diffSnapshots(live, replayed); d != "" {
		t.Errorf("replay differs from live (-live +replay):\n%s", d)
	}
}

func replayAll(t *testing.T, data []byte) *metrics.Snapshot {
	t.Helper()
	r, err := recording.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b := board.New()
	for {
		f, err := r.Next()
		if errors.Is(err, io.EOF) {
			return b.Snapshot()
		}
		if err != nil {
			t.Fatal(err)
		}
		b.Apply(f)
	}
}
