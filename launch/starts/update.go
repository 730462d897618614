package starts

import (
	"cmp"

	"github.com/runvigil/runvigil/metrics"
)

// update lays what is newly known of a start over what was known. Nothing that
// was measured is forgotten: an absent figure, an unknown outcome and an empty
// text leave the old ones.
func update(old, s metrics.Start) metrics.Start {
	out := old
	if old.Imported && !s.Imported {
		out.ID, out.Imported, out.At = s.ID, false, s.At // the process itself was seen
	}
	for _, p := range []struct {
		to   *string
		from string
	}{
		{&out.Node, s.Node}, {&out.Engine, s.Engine}, {&out.Version, s.Version}, {&out.Model, s.Model}, {&out.Label, s.Label},
		{&out.KVDtype, s.KVDtype}, {&out.Dataset, s.Dataset}, {&out.Note, s.Note}, {&out.GuardBroken, s.GuardBroken}, {&out.Override, s.Override},
	} {
		*p.to = cmp.Or(p.from, *p.to)
	}
	for _, p := range figures(&out, &s) {
		if *p.from != nil {
			*p.to = *p.from
		}
	}
	if old.Peak != nil && s.Peak != nil && *old.Peak > *s.Peak {
		out.Peak = old.Peak
	}
	if old.LowestFree != nil && s.LowestFree != nil && *old.LowestFree < *s.LowestFree {
		out.LowestFree = old.LowestFree
	}
	if len(s.Argv) > 0 {
		out.Argv = s.Argv
	}
	if len(s.Phases) >= len(out.Phases) && len(s.Phases) > 0 {
		out.Phases = s.Phases
	}
	if out.FirstToken.IsZero() {
		out.FirstToken = s.FirstToken
	}
	if out.FirstRequest.IsZero() {
		out.FirstRequest = s.FirstRequest
	}
	if final(s.Outcome) || !final(old.Outcome) && s.Outcome != "" && (s.Outcome != "unknown" || old.Outcome == "running") {
		out.Outcome = s.Outcome
	}
	if s.Cause != "" {
		out.Cause, out.CauseTxt, out.AfterS = s.Cause, cmp.Or(s.CauseTxt, out.CauseTxt), cmp.Or(s.AfterS, out.AfterS)
		out.CausePhase, out.AfterRequestS = cmp.Or(s.CausePhase, out.CausePhase), cmp.Or(s.AfterRequestS, out.AfterRequestS)
	}
	return out
}

// final tells the outcomes that do not change any more.
func final(outcome string) bool {
	return outcome == "stopped" || outcome == "crashed" || outcome == "failed"
}

type figurePair struct{ to, from **float64 }

func figures(to, from *metrics.Start) []figurePair {
	return []figurePair{
		{&to.ReadyS, &from.ReadyS}, {&to.FreeAtStartGB, &from.FreeAtStartGB}, {&to.BytesPerTok, &from.BytesPerTok},
		{&to.Capacity, &from.Capacity}, {&to.HeadroomGB, &from.HeadroomGB}, {&to.Peak, &from.Peak}, {&to.Settled, &from.Settled},
		{&to.Spread, &from.Spread}, {&to.Running, &from.Running}, {&to.Queued, &from.Queued}, {&to.KVUsage, &from.KVUsage},
		{&to.PerRequest, &from.PerRequest}, {&to.RowsPerMin, &from.RowsPerMin}, {&to.LowestFree, &from.LowestFree}, {&to.DurationS, &from.DurationS},
	}
}
