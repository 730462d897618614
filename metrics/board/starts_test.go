package board

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runvigil/runvigil/metrics"
)

// A crash and the way back follow each other within minutes, and stay apart.
func TestStartsMinutesApartStayApart(t *testing.T) {
	b := New()
	b.session.BootID = "boot"
	at := func(m int) time.Time { return time.Date(2026, 2, 24, 11, m, 0, 0, time.UTC) }
	num := func(v float64) *float64 { return &v }
	told := []metrics.Start{
		{ID: "boot:1:10", At: at(20), Capacity: num(159_277), Note: "kept"},
		{ID: "boot:2:20", At: at(23), Capacity: num(231_120), Note: "crashed"},
		{ID: "noted", At: at(50), Capacity: num(376_000), Imported: true, Note: "about"},
	}
	logged := map[string]bool{}
	list := told
	for _, c := range []struct {
		s          metrics.Start
		id, note   string
		fromLog    bool
		isImported bool
	}{
		{metrics.Start{ID: "/l@1", At: at(21), Capacity: num(159_277), Imported: true}, "boot:1:10", "kept", true, false},
		{metrics.Start{ID: "/l@2", At: at(24), Capacity: num(231_120), Imported: true}, "boot:2:20", "crashed", true, false},
		{metrics.Start{ID: "boot:3:30", At: at(26), Capacity: num(159_277)}, "boot:3:30", "", true, false},
		{metrics.Start{ID: "boot:4:40", At: at(27)}, "boot:4:40", "", false, false},
		{metrics.Start{ID: "/l@5", At: at(45), Capacity: num(376_028), Imported: true}, "noted", "about", true, true},
		{metrics.Start{ID: "/l@6", At: at(48), Capacity: num(159_277), Imported: true}, "/l@6", "", true, true},
	} {
		var id string
		list, id = b.mergeStart(list, c.s, logged)
		if c.fromLog {
			logged[id] = true
		}
		for _, s := range list {
			if s.ID == id && (id != c.id || s.Note != c.note || s.Imported != c.isImported) {
				t.Errorf("%s became %s (%q, imported %v), want %s (%q)", c.s.ID, id, s.Note, s.Imported, c.id, c.note)
			}
		}
	}
	if len(list) != 6 {
		t.Errorf("%d starts, want 6", len(list))
	}
}

// A restart that crashed and its way back stand in the log under one id, ten
// seconds apart: they are two starts, each with its own figures.
func TestWayBackIsAStartOfItsOwn(t *testing.T) {
	r := newRig(t)
	line := func(at time.Duration, text string) string { return "[" + r.stamp(at) + "] " + text + "\n" }
	section := func(at time.Duration, fraction string, tokens int, headroom string) string {
		return "==== runvigil start 1796000399-060fea48 ====\n" +
			line(at, "server_args=ServerArgs(model_path='/models/llama', port=30000, mem_fraction_static="+fraction+")") +
			line(at+9*time.Second, fmt.Sprintf("max_total_num_tokens=%d, chunked_prefill_size=8192, max_prefill_tokens=16384, max_running_requests=2048, context_len=32768, available_gpu_mem=%s GB", tokens, headroom)) +
			line(at+9*time.Second, "The server is fired up and ready to roll!")
	}
	r.log(serverLog, section(-40*time.Second, "0.985", 795_496, "2.06")+
		line(-31*time.Second, "Scheduler hit an exception: Traceback (most recent call last):")+
		"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total capacity of 139.80 GiB of which 2.06 GiB is free.\n\n"+
		line(-31*time.Second, "Received sigquit from a child process. It usually means the child failed.")+
		section(-30*time.Second, "0.7", 470_516, "41.76"), metrics.LogHeader{Backfill: 1})
	snap := r.tick(2 * time.Second)
	var got []string
	for _, s := range snap.Starts {
		got = append(got, fmt.Sprintf("%s %.0f %s", s.Label, *s.Capacity, s.Outcome))
	}
	if diff := cmp.Diff([]string{"0.985 bf16 795496 crashed", "0.70 bf16 470516 running"}, got); diff != "" {
		t.Error(diff)
	}
	again := r.tick(2 * time.Second)
	if len(again.Starts) != 2 || again.Starts[0].ID == again.Starts[1].ID {
		t.Errorf("starts %+v", again.Starts)
	}
}
