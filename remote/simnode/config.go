package simnode

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/remote/simnode/model"
)

// nodeName is what the node is called in its configuration and history.
const nodeName = "demo"

// configOf is the configuration that the story's operator would have written
// for this node: the targets, where things lie, and the owner's rule.
func configOf(p places, job int, past model.Past, client []string) metrics.Config {
	c := metrics.Config{
		Node:       nodeName,
		Targets:    []metrics.ConfigTarget{{Rows: int64(job)}},
		Datasets:   []string{filepath.Join(p.file(past.RowsFolder), "*.jsonl")},
		ClientLogs: []string{p.file(past.ClientLog)},
		ServerLogs: []string{p.file(past.ServerLog)},
		Guards: []metrics.Guard{{
			Flag: "kv-cache-dtype", Deny: []string{"fp8*"},
			Why: "an fp8 KV cache degrades the model noticeably (the owner of the data)", From: "config",
		}},
	}
	for _, part := range past.Parts {
		c.Targets = append(c.Targets, metrics.ConfigTarget{Path: p.file(part.File), Rows: int64(part.Target)})
	}
	if len(client) > 0 {
		c.ClientCommand = fmt.Sprintf("cd %s && exec %s", p.data(past), quoted(client))
		c.ClientResumable = true
	}
	return c
}

// historyOf is what was noted of the starts before the one on screen.
func historyOf(p places, starts []model.Start) []metrics.Start {
	var history []metrics.Start
	for _, s := range starts {
		h := metrics.Start{
			ID: fmt.Sprintf("story-%d", s.Number), No: s.Number, Node: nodeName, Engine: "sglang", Version: "0.5.9",
			At: s.At, Argv: p.argv(s.Argv), Imported: true, Outcome: s.Outcome, CauseTxt: s.Cause, Note: s.Note,
			HeadroomGB: s.Headroom,
		}
		h.Model = filepath.Base(valueOf(s.Argv, "--model-path"))
		h.Label = labelOf(s.Argv)
		if s.Cause != "" {
			h.Cause = metrics.CauseCUDAOOM
		}
		if s.Capacity > 0 {
			h.Capacity = figure(float64(s.Capacity))
		}
		if s.Peak > 0 {
			h.Peak = figure(s.Peak)
		}
		if low, high := s.TokS[0], s.TokS[1]; high > 0 {
			h.Settled = figure((low + high) / 2)
			if high > low {
				h.Spread = figure((high - low) / 2)
			}
		}
		if low, high := s.Running[0], s.Running[1]; high > 0 {
			// A range has no place of its own, and its middle was never seen.
			h.Note = strings.TrimPrefix(h.Note+fmt.Sprintf("; %d to %d running", low, high), "; ")
		}
		if s.Ended.After(s.At) {
			h.DurationS = figure(s.Ended.Sub(s.At).Seconds())
		}
		history = append(history, h)
	}
	return history
}

func figure(v float64) *float64 { return &v }

func valueOf(argv []string, flag string) string {
	for i, arg := range argv[:max(len(argv)-1, 0)] {
		if arg == flag {
			return argv[i+1]
		}
	}
	return ""
}

// labelOf is what tells the story's starts apart.
func labelOf(argv []string) string {
	label := []string{valueOf(argv, "--mem-fraction-static"), "bf16"}
	if dtype := valueOf(argv, "--kv-cache-dtype"); dtype != "" {
		label[1], _, _ = strings.Cut(dtype, "_")
	}
	if valueOf(argv, "--hicache-size") != "" {
		label = append(label, "hicache")
	}
	return strings.Join(label, " ")
}
