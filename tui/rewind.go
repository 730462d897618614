package tui

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// lookBack gives the snapshot of the moment that is asked for: as it was shown
// then, where this screen ran, else as far as series tell.
func (m *Model) lookBack() *metrics.Snapshot {
	if i, ok := m.past.near(m.live.At, m.at); ok {
		if s := m.past.recall(i); s != nil {
			return asItWas(s, m.live)
		}
	}
	return rewind(m.live, m.at)
}

// recalled tells whether the past that is shown is a snapshot of then, and not
// only what series tell.
func (m *Model) recalled() bool {
	_, ok := m.past.near(m.live.At, m.at)
	return ok
}

// asItWas completes a snapshot that was kept with what lives on by itself.
func asItWas(kept, live *metrics.Snapshot) *metrics.Snapshot {
	out := *kept
	out.Series, out.Config = live.Series, live.Config
	out.Events, out.Logs = eventsUntil(live, kept.At), logsUntil(live, kept.At)
	for _, f := range live.History {
		if !f.Cleared.After(kept.At) {
			out.History = append(out.History, f)
		}
	}
	for _, c := range live.Kernel {
		if !c.At.After(kept.At) {
			out.Kernel = append(out.Kernel, c)
		}
	}
	for _, n := range live.Notes {
		if !n.At.After(kept.At) {
			out.Notes = append(out.Notes, n)
		}
	}
	return &out
}

func eventsUntil(s *metrics.Snapshot, t time.Time) []metrics.Event {
	var out []metrics.Event
	for _, e := range s.Events {
		if !e.At.After(t) {
			out = append(out, e)
		}
	}
	return out
}

func logsUntil(s *metrics.Snapshot, t time.Time) map[string]*metrics.LogTail {
	out := map[string]*metrics.LogTail{}
	for path, tail := range s.Logs {
		cut := *tail
		n := len(cut.Lines)
		for n > 0 && cut.Lines[n-1].At.After(t) {
			n--
		}
		cut.Lines = cut.Lines[:n]
		out[path] = &cut
	}
	return out
}

// rewind gives the snapshot as far as it is still known for an earlier moment:
// figures from their series, findings by their life, events and log lines up to
// then. What no series holds is unknown, not what it is now.
func rewind(s *metrics.Snapshot, t time.Time) *metrics.Snapshot {
	out := *s
	out.At = t
	out.Link = metrics.Link{Status: metrics.LinkUp, Since: t, LastData: t}
	out.CannotTell = nil
	value := func(what, of string) metrics.Figure {
		return at(s.Series[metrics.SeriesKey{What: what, Of: of}], s.At, t)
	}
	out.Servers = nil
	for _, v := range s.Servers {
		if v.Started.After(t) {
			continue
		}
		out.Servers = append(out.Servers, rewindServer(v, t, value))
	}
	out.GPUs = make([]metrics.GPU, len(s.GPUs))
	for i, g := range s.GPUs {
		of := strconv.Itoa(g.Index)
		out.GPUs[i] = metrics.GPU{
			Index: g.Index, Name: g.Name, UUID: g.UUID, Bus: g.Bus, MemTotal: g.MemTotal, PowerLimit: g.PowerLimit, MIG: g.MIG, Unified: g.Unified,
			MemUsed: value(metrics.SeriesGPUMem, of), Util: value(metrics.SeriesGPUUtil, of),
			Temp: value(metrics.SeriesGPUTemp, of), Power: value(metrics.SeriesGPUPower, of),
		}
	}
	rewindRows(&out, s, value)
	out.Clients = nil
	for _, c := range s.Clients {
		if c.Started.After(t) {
			continue
		}
		if c.Since.After(t) {
			c.State, c.Since = "running", c.Started
		}
		if c.LogSilentSince.After(t) {
			c.LogSilentSince = time.Time{}
		}
		out.Clients = append(out.Clients, c)
	}
	out.Sys = metrics.Host{CPUs: s.Sys.CPUs, MemTotal: s.Sys.MemTotal, MemLimit: s.Sys.MemLimit, NodeTotal: s.Sys.NodeTotal, Load1: value(metrics.SeriesLoad, ""), MemAvail: value(metrics.SeriesMemAvail, "")}
	out.Procs = nil
	out.Starts = startsUntil(s.Starts, t)
	out.Findings = nil
	worst := metrics.SeverityNone
	for _, f := range append(append([]metrics.Finding(nil), s.Findings...), s.History...) {
		if f.Since.After(t) || !f.Cleared.IsZero() && !f.Cleared.After(t) {
			continue
		}
		out.Findings = append(out.Findings, findingUntil(f, t))
		worst = max(worst, f.Severity)
	}
	out.Events, out.Logs = eventsUntil(s, t), logsUntil(s, t)
	out.Verdict = pastVerdict(&out, worst)
	return &out
}

func rewindServer(v metrics.Server, t time.Time, value func(what, of string) metrics.Figure) metrics.Server {
	past := metrics.Server{
		ID: v.ID, Engine: v.Engine, Version: v.Version, Model: v.Model, PID: v.PID, Start: v.Start, Started: v.Started,
		User: v.User, Port: v.Port, Addr: v.Addr, Argv: v.Argv, Cwd: v.Cwd, Tree: v.Tree, TP: v.TP, DP: v.DP, PP: v.PP,
		Log: v.Log, StartNo: v.StartNo, Capacity: v.Capacity, MaxRunning: v.MaxRunning, ContextLen: v.ContextLen,
		Headroom: v.Headroom, KVDtype: v.KVDtype, BytesPerTok: v.BytesPerTok, State: metrics.ServerUnknown, Since: t,
	}
	past.Gen.Now = value(metrics.SeriesGenTPS, v.ID)
	if v.Gen.Peak.Known && !v.Gen.PeakAt.After(t) {
		past.Gen.Peak, past.Gen.PeakAt = v.Gen.Peak, v.Gen.PeakAt
	}
	past.InputTPS = value(metrics.SeriesInputTPS, v.ID)
	past.Running = value(metrics.SeriesRunning, v.ID)
	past.Queued = value(metrics.SeriesQueued, v.ID)
	past.KVUsage = value(metrics.SeriesKVUsage, v.ID)
	past.PerRequest = value(metrics.SeriesPerReq, v.ID)
	past.AcceptLen = value(metrics.SeriesAcceptLen, v.ID)
	if past.Running.Known && past.Queued.Known {
		past.InFlight = metrics.Known(past.Running.V+past.Queued.V, t, 0, "history")
	}
	switch {
	case !v.Ended.IsZero() && !v.Ended.After(t):
		past.State, past.Since, past.Ended, past.ExitCode, past.Causes = metrics.ServerDown, v.Ended, v.Ended, v.ExitCode, v.Causes
	case past.Running.Known && past.Running.V > 0:
		past.State = metrics.ServerServing
	case v.Phase.Ready.After(t):
		past.State = metrics.ServerStarting
	}
	return past
}

func rewindRows(out, s *metrics.Snapshot, value func(what, of string) metrics.Figure) {
	out.Datasets = make([]metrics.Dataset, 0, len(s.Datasets))
	out.Job = metrics.Job{Target: s.Job.Target, PerMin: value(metrics.SeriesRowRate, "")}
	sum, all := 0.0, len(s.Datasets) > 0
	for _, d := range s.Datasets {
		past := metrics.Dataset{Path: d.Path, Name: d.Name, Target: d.Target, Rows: value(metrics.SeriesRows, d.Path), PerMin: value(metrics.SeriesRowRate, d.Path)}
		if !d.Done.IsZero() && !d.Done.After(out.At) {
			past.Rows, past.Done = d.Rows, d.Done
		}
		sum += past.Rows.V
		all = all && past.Rows.Known
		out.Datasets = append(out.Datasets, past)
	}
	if all {
		out.Job.Rows = metrics.Known(sum, out.At, 0, "history")
	}
}

// startsUntil are the starts that had begun, those that had not ended without
// what they came to.
func startsUntil(all []metrics.Start, t time.Time) []metrics.Start {
	var out []metrics.Start
	for _, s := range all {
		if s.At.After(t) {
			continue
		}
		if s.DurationS == nil || s.At.Add(time.Duration(*s.DurationS*float64(time.Second))).After(t) {
			s = metrics.Start{ID: s.ID, No: s.No, Node: s.Node, Engine: s.Engine, Version: s.Version, Model: s.Model, At: s.At, Argv: s.Argv, Label: s.Label,
				Imported: s.Imported, Capacity: s.Capacity, HeadroomGB: s.HeadroomGB, KVDtype: s.KVDtype, Outcome: "unknown"}
		}
		out = append(out, s)
	}
	return out
}

// findingUntil is a finding without what was learnt of it later.
func findingUntil(f metrics.Finding, t time.Time) metrics.Finding {
	f.Evidence = slices.DeleteFunc(slices.Clone(f.Evidence), func(e metrics.Evidence) bool { return e.At.After(t) })
	f.Changed = slices.DeleteFunc(slices.Clone(f.Changed), func(c metrics.FindingChange) bool { return c.At.After(t) })
	return f
}

func pastVerdict(s *metrics.Snapshot, worst metrics.Severity) metrics.Verdict {
	v := metrics.Verdict{Level: worst, Word: "OK"}
	switch worst {
	case metrics.SeverityWarning:
		v.Word = "WARN"
	case metrics.SeverityCritical:
		v.Word = "CRIT"
	}
	srv := s.Server()
	switch {
	case srv == nil && len(s.Starts) > 0:
		st := s.Starts[len(s.Starts)-1]
		v.Word, v.Text = "NONE", fmt.Sprintf("start #%d was the newest then; how it was is not known", st.No)
	case srv == nil:
		v.Word, v.Text = "NONE", "nothing is known of then"
	case !srv.Gen.Now.Known:
		v.Text = "no throughput is known for this moment"
		if worst == metrics.SeverityNone {
			v.Word = "NONE"
		}
	default:
		v.Text = fmt.Sprintf("%s tok/s with %s running and %s queued",
			metrics.Rate(srv.Gen.Now.V), metrics.FigureText(srv.Running, whole), metrics.FigureText(srv.Queued, whole))
	}
	if len(s.Findings) > 0 {
		v.Text += "; " + s.Findings[0].Title
	}
	return v
}
