package frames

import (
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/remote/simnode/model"
)

// Opening are the frames that come before the probe's own: the configuration
// that the operator of the run would have written for this node, the owner's
// guard, what was noted of earlier starts, and the rows as they were counted
// just before the client's start.
func (s *Source) Opening() []metrics.Frame {
	config := s.config()
	saved := metrics.Saved{Node: s.name, BootID: s.node.Host().BootID, Files: []metrics.SavedFile{}}
	if started := s.node.Client().Started; !started.IsZero() {
		for _, f := range s.saved {
			f.At = started.Add(-10 * time.Second)
			saved.Files = append(saved.Files, f)
		}
	}
	return []metrics.Frame{
		metrics.JSONFrame(metrics.KindConfig, s.name, s.at, config),
		metrics.JSONFrame(metrics.KindGuards, "config", s.at, config.Guards),
		metrics.JSONFrame(metrics.KindStarts, "", s.at, s.starts()),
		metrics.JSONFrame(metrics.KindSaved, "", s.at, saved),
	}
}

func (s *Source) config() metrics.Config {
	c := metrics.Config{
		Node: s.name, Interval: time.Second, Targets: []metrics.ConfigTarget{{Rows: int64(s.job)}},
		Datasets:   []string{path.Join(s.past.RowsFolder, "*.jsonl")},
		ClientLogs: []string{s.past.ClientLog}, ServerLogs: []string{s.past.ServerLog},
		Guards: []metrics.Guard{{
			Flag: "kv-cache-dtype", Deny: []string{"fp8*"},
			Why: "an fp8 KV cache degrades the model noticeably (the owner of the data)", From: "config",
		}},
	}
	for _, p := range s.past.Parts {
		c.Targets = append(c.Targets, metrics.ConfigTarget{Path: p.File, Rows: int64(p.Target)})
	}
	if client := s.node.Client(); len(client.Argv) > 0 {
		c.ClientCommand = fmt.Sprintf("cd %s && exec %s", client.Dir, strings.Join(client.Argv, " "))
		c.ClientResumable = true
	}
	return c
}

// starts is what the operator had noted of the starts before this one.
func (s *Source) starts() []metrics.Start {
	figure := func(v float64) *float64 {
		if v == 0 {
			return nil
		}
		return &v
	}
	list := []metrics.Start{}
	for _, h := range s.past.History {
		st := metrics.Start{
			ID: fmt.Sprintf("story-%d", h.Number), No: h.Number, Node: s.name, Engine: "sglang", Version: "0.5.9", At: h.At, Argv: h.Argv,
			Label: label(h.Argv), Imported: true, Capacity: figure(float64(h.Capacity)), HeadroomGB: h.Headroom, Peak: figure(h.Peak),
			Settled: figure((h.TokS[0] + h.TokS[1]) / 2), Spread: figure((h.TokS[1] - h.TokS[0]) / 2),
			DurationS: figure(h.Ended.Sub(h.At).Seconds()), Outcome: h.Outcome, CauseTxt: h.Cause, Note: h.Note,
		}
		if flags, err := model.ParseFlags(h.Argv); err == nil {
			st.Model = path.Base(flags.ModelPath)
		}
		if h.Cause != "" {
			st.Cause = metrics.CauseCUDAOOM
		}
		if low, high := h.Running[0], h.Running[1]; high > 0 {
			// A range has no place of its own, and its middle was never seen.
			st.Note = strings.TrimPrefix(st.Note+fmt.Sprintf("; %d to %d running", low, high), "; ")
		}
		list = append(list, st)
	}
	return list
}

// label is what tells the starts of the run apart.
func label(argv []string) string {
	f, err := model.ParseFlags(argv)
	if err != nil {
		return ""
	}
	dtype := "bf16"
	if strings.HasPrefix(f.KVDtype, "fp8") {
		dtype = "fp8"
	}
	text := fmt.Sprintf("%.2f %s", f.MemFraction, dtype)
	if f.HiCache {
		text += " hicache"
	}
	return text
}
