package board

import (
	"testing"
	"time"

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
