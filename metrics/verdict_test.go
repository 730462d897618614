package metrics

import (
	"strings"
	"testing"
	"time"
)

func TestJudge(t *testing.T) {
	now := time.Date(2026, 2, 24, 12, 16, 7, 0, time.UTC)
	fig := func(v float64) Figure { return Known(v, now, 10*time.Second, "log") }
	story := func() *Snapshot {
		return &Snapshot{
			Node: "gpu7", At: now, BootID: "b", Link: Link{Status: LinkUp, LastData: now},
			Servers: []Server{{
				State: ServerServing, PerRequest: fig(4426),
				Gen: GenRate{Now: fig(606), Settled: fig(604), Peak: fig(1317.32), PeakPerRequest: fig(1150.6)},
			}},
			Datasets: []Dataset{{Path: "/d/B2.jsonl", Grew: now.Add(-4 * time.Second), Rows: fig(1531)}},
		}
	}
	for _, c := range []struct {
		name   string
		change func(s *Snapshot)
		word   string
		text   string
	}{
		{"the story", func(*Snapshot) {}, WordOK, "rows land; 604 tok/s is settled (1,317 was the ramp: 1,151 tokens a request, now 4,426)"},
		{"a moment far from the level does not speak for it", func(s *Snapshot) { s.Servers[0].Gen.Now = fig(300) }, WordOK,
			"rows land; 604 tok/s is settled (1,317 was the ramp: 1,151 tokens a request, now 4,426)"},
		{"no ramp above the level", func(s *Snapshot) { s.Servers[0].Gen.Peak = fig(650) }, WordOK, "rows land; 604 tok/s is settled"},
		{"a part drains", func(s *Snapshot) {
			v := &s.Servers[0]
			v.Running, v.Queued, v.Gen.SettledRunning, v.NewRequest = fig(7), fig(0), fig(35), now.Add(-2*time.Minute)
		}, WordOK, "rows land; draining, 7 left"},
		{"long requests, one at a time, drain nothing", func(s *Snapshot) {
			v := &s.Servers[0]
			v.Running, v.Queued, v.Gen.SettledRunning, v.NewRequest = fig(1), fig(0), fig(1), now.Add(-9*time.Minute)
		}, WordOK, "rows land; 604 tok/s is settled"},
		{"in the ramp", func(s *Snapshot) {
			s.Servers[0].Gen = GenRate{Now: fig(1317.32), Ramp: true}
			s.Servers[0].PerRequest = fig(1151)
		}, WordOK, "rows land; 1,317 tok/s, not settled: requests are young (1,151 tokens each)"},
		{"rows have stopped", func(s *Snapshot) { s.Datasets[0].Grew = now.Add(-8 * time.Minute) }, WordOK, "no row for 8 m; 604 tok/s is settled (1,317 was the ramp: 1,151 tokens a request, now 4,426)"},
		{"info findings change nothing", func(s *Snapshot) { s.Findings = []Finding{{ID: "settled", Severity: SeverityInfo, Title: "x"}} }, WordOK, "rows land; 604"},
		{"a warning", func(s *Snapshot) { s.Findings = []Finding{{Severity: SeverityWarning, Title: "headroom 3 GiB"}} }, WordWarn, "headroom 3 GiB"},
		{"the worst of several", func(s *Snapshot) {
			s.Findings = []Finding{{Severity: SeverityWarning, Title: "a"}, {Severity: SeverityCritical, Title: "hung: 35 running"}}
		}, WordCrit, "hung: 35 running"},
		{"an acknowledged one does not lead, and all is not well", func(s *Snapshot) { s.Findings = []Finding{{Severity: SeverityCritical, Title: "a", Acked: true}} }, WordCrit, "rows land"},
		{"nor does a snoozed one", func(s *Snapshot) {
			s.Findings = []Finding{{Severity: SeverityWarning, Title: "a", Snoozed: now.Add(time.Hour)}}
		}, WordWarn, "rows land"},
		{"an acknowledged note is nothing", func(s *Snapshot) { s.Findings = []Finding{{Severity: SeverityInfo, Title: "a", Acked: true}} }, WordOK, "rows land"},
		{"link down", func(s *Snapshot) {
			s.Link = Link{Status: LinkDown, LastData: now.Add(-time.Minute), Reason: "node unreachable"}
			s.Findings = []Finding{{Severity: SeverityCritical, Title: "a"}}
		}, WordDown, "no answer from gpu7 for 1 m: node unreachable"},
		{"a server of which no figure is known", func(s *Snapshot) {
			s.Servers[0], s.Datasets = Server{State: ServerServing}, nil
		}, WordOK, "a server runs; how fast is not known yet"},
		{"starting", func(s *Snapshot) {
			s.Servers[0] = Server{State: ServerStarting, Started: now.Add(-3 * time.Minute), Phase: Phase{Name: "loading weights", Done: 12, Total: 64, Expected: 8 * time.Minute}}
		}, WordOK, "server starting: loading weights 12/64, 3 m of about 8 m"},
		{"idle at the target", func(s *Snapshot) {
			s.Job = Job{Done: true, Rows: fig(20000)}
			s.Servers[0] = Server{State: ServerIdle, Since: now.Add(-17 * time.Minute)}
		}, WordOK, "job done: 20,000 rows; server idle for 17 m"},
		{"nothing there", func(s *Snapshot) { s.Servers, s.Datasets = nil, nil }, WordNone, "no server, client or dataset found on gpu7"},
		{"still looking", func(s *Snapshot) {
			s.Servers, s.Datasets = nil, nil
			s.Doing = []string{DoingLook}
		}, WordWait, "connected; looking"},
		{"connecting", func(s *Snapshot) {
			*s = Snapshot{Node: "gpu7", At: now, Doing: []string{DoingConnect + "gpu7"}}
		}, WordWait, "connecting to gpu7"},
		{"rows without a server", func(s *Snapshot) { s.Servers = nil }, WordOK, "rows land; no server found"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := story()
			c.change(s)
			v := Judge(s)
			if v.Word != c.word || !strings.HasPrefix(v.Text, c.text) || strings.HasSuffix(c.text, ")") && v.Text != c.text {
				t.Errorf("%s %q, want %s %q", v.Word, v.Text, c.word, c.text)
			}
		})
	}
}
