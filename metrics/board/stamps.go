package board

import (
	"bytes"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// lastStamp finds the newest time among the last lines, as seconds since 1970 in
// the log's own zone. It reads SGLang's "[YYYY-MM-DD HH:MM:SS" and "[HH:MM:SS" and
// vLLM's "LEVEL MM-DD HH:MM:SS"; what is left out is that of the moment near, in
// the same unit.
func lastStamp(raw []byte, near int64) (int64, bool) {
	for range 50 {
		raw = bytes.TrimRight(raw, "\r\n")
		if len(raw) == 0 {
			return 0, false
		}
		i := bytes.LastIndexByte(raw, '\n')
		if t, ok := stampIn(raw[i+1:], near); ok {
			return t, true
		}
		raw = raw[:max(i, 0)]
	}
	return 0, false
}

// stampColumn is how far into a line its time may stand: behind a process's name.
const stampColumn = 80

func stampIn(line []byte, near int64) (int64, bool) {
	head := line[:min(len(line), stampColumn)]
	if i := bytes.IndexByte(head, '['); i >= 0 {
		if len(line) >= i+20 {
			if t, err := time.Parse(time.DateTime, string(line[i+1:i+20])); err == nil {
				return t.Unix(), true
			}
		}
		if len(line) >= i+9 {
			if t, err := time.Parse(time.TimeOnly, string(line[i+1:i+9])); err == nil {
				const day = 86400
				t := int64(t.Hour()*3600 + t.Minute()*60 + t.Second())
				return t + (near-t+day/2)/day*day, true
			}
		}
	}
	for _, level := range [][]byte{[]byte("INFO "), []byte("WARNING "), []byte("ERROR "), []byte("DEBUG ")} {
		i := bytes.Index(head, level)
		if at := i + len(level); i >= 0 && len(line) >= at+14 {
			const noYear = "01-02 15:04:05"
			if t, err := time.Parse(noYear, string(line[at:at+14])); err == nil {
				year := time.Unix(near, 0).UTC().Year()
				best := t.AddDate(year, 0, 0).Unix()
				for _, y := range []int{year - 1, year + 1} {
					if o := t.AddDate(y, 0, 0).Unix(); distance(o, near) < distance(best, near) {
						best = o
					}
				}
				return best, true
			}
		}
	}
	return 0, false
}

func distance(a, b int64) int64 { return max(a-b, b-a) }

// drift is a doubt about a log's stamps: they no longer fit to the moment at
// which they are written, since the node's zone or clock has changed.
type drift struct {
	zone  int // in which they would fit
	votes int
}

const (
	driftSlack = 90 // seconds that a line may be old when it is written
	driftVotes = 3
)

func (d *drift) sure() bool { return d.votes >= driftVotes }

// drifted gives the zone in which the newest stamps of a live chunk fit to its
// arrival. What was written between two looks was written just now.
func (l *logState) drifted(b *Board, h metrics.LogHeader, raw []byte, at time.Time) int {
	if h.Backfill != 0 || h.End != h.Size || h.Skipped > 0 || len(raw) == 0 || !b.present().Equal(b.now) {
		return l.zone
	}
	now := at.Add(b.offset).Unix()
	stamp, ok := lastStamp(raw, now+int64(l.zone))
	if !ok {
		return l.zone
	}
	off := int(stamp - int64(l.zone) - now) // how far the stamp is ahead
	if off > -driftSlack && off < driftSlack {
		l.drift = drift{}
		return l.zone
	}
	zone := l.zone + off
	if whole := (zone + zoneStep/2 + 96*zoneStep) / zoneStep * zoneStep; distance(int64(whole-96*zoneStep), int64(zone)) < driftSlack {
		zone = whole - 96*zoneStep
	}
	if l.drift.votes == 0 || distance(int64(zone), int64(l.drift.zone)) > driftSlack {
		l.drift = drift{zone: zone}
	}
	l.drift.votes++
	return l.drift.zone
}
