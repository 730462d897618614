package sglang

import "fmt"

// version narrows the range of versions that can have written the log. A
// version 0.MINOR.PATCH is MINOR*100+PATCH; 0 leaves an end open.
func (s *State) version(since, until int) {
	if since > s.lo {
		s.lo = since
	}
	if until > 0 && (s.hi == 0 || until < s.hi) {
		s.hi = until
	}
}

// fingerprint reads the version out of a batch line's keys.
func (s *State) fingerprint(ev *Event) {
	b := ev.Batch
	if b.dot {
		s.version(0, 503)
	} else if ev.At.Known {
		s.version(504, 0)
	}
	if !b.Decode && b.Graph.Known {
		if b.inputFirst && b.InputTPS.Known {
			s.version(509, 509)
		} else {
			s.version(510, 0)
		}
	}
	if b.Pending.Known || b.Occupancy.Known {
		s.version(511, 0)
	}
	if b.Optimistic.Known || b.CapLen.Known || b.BlockAcceptLen.Known {
		s.version(516, 0)
	}
	if b.ReadGBs.Known || b.DecodeTFLOPS.Known {
		s.version(510, 0)
	}
	if b.Decode && b.trailing && !b.dot {
		s.version(504, 508)
	}
	if b.CacheHit.Known {
		s.version(0, 404)
	}
	if ev.Rank.CP >= 0 {
		s.version(509, 0)
	}
}

// Version is what the wording tells about the engine's version: "0.5.9", a
// range such as "0.5.4 to 0.5.8", "0.5.11 or later", or "" for nothing.
func (s *State) Version() string {
	name := func(v int) string { return fmt.Sprintf("0.%d.%d", v/100, v%100) }
	switch {
	case s.lo > 0 && s.hi > 0 && s.lo > s.hi:
		return "" // lines of two versions in one log
	case s.lo > 0 && s.lo == s.hi:
		return name(s.lo)
	case s.lo > 0 && s.hi > 0:
		return name(s.lo) + " to " + name(s.hi)
	case s.lo > 0:
		return name(s.lo) + " or later"
	case s.hi > 0:
		return name(s.hi) + " or earlier"
	}
	return ""
}
